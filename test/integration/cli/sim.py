"""rota sim balance: policies compared in the simulator."""

from cli.support import ok, refuse, test


@test
def policies_are_compared_in_the_simulator():
    call = ["sim", "balance", "--calls", "20000", "--scenario", "slow_32"]
    document = ok(*call, "--json").json()
    assert document["seed"] == 1 and document["calls"] == 20000 and not document["hedge"]
    (scenario,) = document["scenarios"]
    assert scenario["name"] == "slow_32"
    rows = {row["policy"]: row for row in scenario["results"]}
    assert {"rota", "look_aside", "round_robin", "random", "oracle"} <= rows.keys()
    assert rows["look_aside"]["p99_us"] > 3 * rows["rota"]["p99_us"]
    assert rows["rota"]["n_calls"] == 18000 and rows["rota"]["n_failed"] == 0

    # A seed gives the same answer, another seed another one; the table has the same numbers.
    assert ok(*call, "--json", "--seed", "1").json() == document
    assert ok(*call, "--json", "--seed", "2").json() != document
    table = ok(*call, "--policy", "rota").out.decode()
    assert f"{rows['rota']['p99_us'] / 1000:.1f}" in table and "look_aside" not in table
    hedged = ok(*call, "--policy", "rota", "--hedge", "--json").json()["scenarios"][0]["results"][0]
    assert 0.01 < hedged["hedged"] < 0.06

    refuse("sim", "balance", "--scenario", "slow", name=["slow", "--scenario"])
    refuse("sim", "balance", "--policy", "rotta", name=["rotta", "--policy"])
    refuse("sim", "balance", "--calls", "0", name="--calls")
    refuse("sim", "balance", "--calls", "10000001", name="--calls")
    refuse("sim", "balance", "--seed", "-1", name="--seed")
