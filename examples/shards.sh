#!/bin/sh
# Two echo servers stand on a ring of four shards with two replicas each; a client
# asks all shards, also when one of the servers is gone:
# `shards.sh DIRECTORY ROTA`, where the programs are, and `rota`.
set -eu
bin=$1 rota=$2
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT

# Start a program and wait until it says where it serves.
serve() {
    name=$1
    shift
    "$@" >"$work/$name" &
    pids="$pids $!"
    until grep -q ready "$work/$name"; do kill -0 $!; done
    sed -n 's/^ready grpc=//p' "$work/$name"
}

serve first "$bin/echo_server" >"$work/hosts"
first=$pids
serve second "$bin/echo_server" >>"$work/hosts"
serve directory "$rota" directory serve --hosts "$work/hosts" --collection books --shards 4 \
    >"$work/address"
read -r directory <"$work/address"
"$rota" directory get --node "$directory" --collection books

test "$("$bin/shard_client" "$directory" books hello | grep -c ': hello$')" = 4
kill -KILL $first
test "$("$bin/shard_client" "$directory" books again | grep -c ': again$')" = 4
if "$bin/shard_client" "$directory" papers hello; then
    echo "shards.sh: a collection that is not there has answered" >&2
    exit 1
fi
