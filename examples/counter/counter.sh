#!/bin/sh
# Two processes share the shards of a space: one is killed and the other continues its counters; a
# call with an old epoch is rejected: `counter.sh DIRECTORY`, which has the program.
set -eu
bin=$1
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT
store=sqlite:$work/store.db
mkdir "$work/counts"

for name in first second; do
    "$bin/counter_server" "$store" "$work/counts" >"$work/$name" &
    pids="$pids $!"
done
first=${pids% *} second=${pids##* }
until grep -q start "$work/first" && grep -q start "$work/second"; do kill -0 $pids; done

for name in a b c d e f g h; do
    "$bin/counter_client" "$store" $name | grep "^$name=1 "
done

# A call that was routed by an old epoch.
if "$bin/counter_client" "$store" a 1 2>"$work/error"; then
    echo "counter.sh: an old epoch was served" >&2
    exit 1
fi
grep -q '^counter_client: ABORTED: ' "$work/error"

# The other one takes over, and no count is lost.
kill -KILL $first
for name in a b c d e f g h; do
    "$bin/counter_client" "$store" $name 2>/dev/null | grep -q "^$name=2 "
done

# At SIGTERM a process stops all of its shards, and ends.
pids=$second
kill $second
wait $second
test "$(grep -c start "$work/second")" = "$(grep -c stop "$work/second")"
