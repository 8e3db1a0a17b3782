#!/bin/sh
# Two servers share the shards of a space. One is killed and one is paused, and no count is lost,
# made twice or goes back: `counter.sh DIRECTORY ROTAD`: the programs, and the node that the client
# asks.
set -eu
bin=$1 rotad=$2
work=$(mktemp -d)
pids=
trap 'kill -CONT $pids 2>/dev/null || true; kill $pids 2>/dev/null || true; wait; rm -rf "$work"' EXIT
store=sqlite:$work/store.db
mkdir "$work/counts"

mkfifo "$work/ready"
"$rotad" --data "$work/node" --store "$store" --listen 127.0.0.1:0 --http 127.0.0.1:0 --workers '' \
    --ttl 2s >"$work/ready" 2>"$work/log" &
pids=$!
read -r _ node _ <"$work/ready"
node=${node#grpc=}

# serve NAME: starts a server, and waits until it has a shard. Its pid is in $!.
serve() {
    "$bin/counter_server" "$store" "$work/counts" >"$work/$1" &
    pids="$pids $!"
    until grep -q start "$work/$1"; do kill -0 $!; done
}

# expect N: adds 1 to every counter, which are at N then.
expect() {
    for name in a b c d e f g h; do
        "$bin/counter_client" "$node" $name | grep "^$name=$1 "
    done
}

serve first
first=$!
serve second
second=$!
expect 1

# The other server takes over.
kill -KILL $first
expect 2

# A server that was paused finds that its shards have another owner.
serve third
kill -STOP $second
expect 3
kill -CONT $second
expect 4

# At SIGTERM a server stops all of its shards, and ends.
kill $second
wait $second
test "$(grep -c start "$work/second")" = "$(grep -c stop "$work/second")"
expect 5
