"""rota space and rota shard: what is wrong is said before anybody is asked."""

from cli.support import ok, refuse, run, test

NOBODY = ["--node", "127.0.0.1:1", "--timeout", "1s"]


def calls():
    """A call of every command that is right if there is such a node and space."""
    yield ["space", "list"]
    yield ["space", "show", "orders"]
    yield ["space", "migrate", "orders", "lease"]
    yield ["space", "create", "orders"]
    yield ["space", "delete", "orders"]
    yield ["space", "reseat", "orders", "a:1"]
    yield ["shard", "list", "orders"]
    yield ["shard", "show", "orders", "7"]
    yield ["shard", "explain", "orders", "7"]
    yield ["shard", "pin", "orders", "7", "a:1"]
    yield ["shard", "pin", "orders", "7", "--off"]
    yield ["shard", "move", "orders", "7", "a:1"]


@test
def one_of_the_nodes_is_asked():
    for call in calls():
        refuse(*call, "--node", "", name="--node")
        assert b"127.0.0.1:7700" in ok(*call[:2], "--help").out, call  # unless another is named
        refuse(*call, *NOBODY, code=1, name="127.0.0.1:1")
        refuse(*call, env={"ROTA_NODE": "127.0.0.1:1"}, code=1, name="127.0.0.1:1")
        refuse(*call, "one", "too", "many", *NOBODY)
        refuse(*call, "--nonsense", *NOBODY, name="nonsense")


@test
def unreachable_nodes_are_named_once_and_with_a_hint():
    for call in (["queue", "list"], ["job", "add", "--queue", "q", "x"], ["job", "show", "q/" + "1" * 32]):
        error = refuse(*call, "--node", "127.0.0.1:1", code=1, name="connection refused; is rotad running there?").err
        assert error.count(b"127.0.0.1:1") == 1, error


@test
def commands_without_node_ask_this_machine():
    for call in (["space", "list"], ["queue", "list"], ["node", "list"], ["events"], ["get", "key"],
                 ["directory", "get", "--collection", "x"], ["directory", "show", "--collection", "x"]):
        for env in ({"ROTA_NODE": ""}, {"ROTA_NODE": "", "ROTA_STORE": ""}):
            answer = run(*call, "--timeout", "300ms", env=env)
            # Somebody may even be there.
            assert answer.code == 0 or answer.code == 1 and b"127.0.0.1:7700" in answer.err, (call, answer.code, answer.err)
        assert b"127.0.0.1:7700" in ok("help", *call[:2 if call[0] not in ("events", "get") else 1]).out, call


@test
def all_that_changes_has_a_dry_run():
    for call in calls():
        text = ok(*call[:2], "--help").out
        assert (b"--dry-run" in text) == (call[1] in ("migrate", "create", "delete", "reseat", "pin", "move")), (call, text)
        assert b"--json" in text and b"--node" in text and b"Examples:" in text, text


@test
def shards_are_numbers():
    for shard in ("-1", "x", "1x", "", " 1", "131072", "4294967296", "99999999999999999999999", "\x1b[31m", "1.0"):
        for call in (["shard", "show"], ["shard", "explain"]):
            refuse(*call, *NOBODY, "--", "orders", shard, name="not a shard")
        refuse("shard", "move", *NOBODY, "--", "orders", shard, "a:1", name="not a shard")


@test
def pin_is_for_a_node_or_off():
    refuse("shard", "pin", "orders", "7", *NOBODY, name="--off")
    refuse("shard", "pin", "orders", "7", "a:1", "--off", *NOBODY, name="--off")
    refuse("shard", "pin", "orders", "7", "", *NOBODY, name="--off")
    refuse("shard", "move", "orders", "7", "", *NOBODY, name="empty")
    refuse("space", "show", "", *NOBODY, name="empty")


@test
def filters_are_checked():
    refuse("shard", "list", "orders", "--state", "lost", *NOBODY, name="lost")
    refuse("space", "migrate", "orders", "lease", "--shadow", "2d", *NOBODY, name="2d")
    refuse("space", "migrate", "orders", *NOBODY, name="ENGINE")
