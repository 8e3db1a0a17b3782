#!/bin/sh
# Two servers divide the 16 shards of a space. A client calls all of them through a node, which
# knows the owners, also after one server is killed and the other has taken over:
# `shards.sh DIRECTORY ROTA ROTAD`: DIRECTORY has the programs, ROTA is `rota`, ROTAD is `rotad`.
set -eu
bin=$1 rota=$2 rotad=$3
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT

# Starts a program, waits until it is ready, and prints its address.
serve() {
    name=$1
    shift
    "$@" >"$work/$name" 2>"$work/$name.log" &
    pids="$pids $!"
    until grep -q ready "$work/$name"; do kill -0 $!; done
    sed -n 's/^ready grpc=\([^ ]*\).*/\1/p' "$work/$name"
}

serve node "$rotad" --data "$work/data" --listen 127.0.0.1:0 --http 127.0.0.1:0 --workers 127.0.0.1:0 \
    >"$work/address"
read -r node <"$work/address"
store=sqlite:$work/data/store.db
serve first "$bin/shard_owner" "$store" >"$work/first.address"
read -r first <"$work/first.address"
first_pid=${pids##* }
serve second "$bin/shard_owner" "$store" >/dev/null

# Prints the replies, once there are 16.
call_all() {
    until "$bin/shard_client" "$node" books "$1" >"$work/replies" 2>/dev/null &&
        test "$(grep -c ": $1\$" "$work/replies")" = 16; do :; done
    cat "$work/replies"
}

call_all hello
until "$rota" directory get --node "$node" --collection books | grep -q "$first"; do :; done
kill -KILL "$first_pid"
call_all again
until ! "$rota" directory get --node "$node" --collection books | grep -q "$first"; do :; done
if "$bin/shard_client" "$node" papers hello; then
    echo "shards.sh: a collection that does not exist has answered" >&2
    exit 1
fi
