#!/bin/sh
# Two echo servers serve four shards with two replicas each. A client calls all shards, also after
# one server is killed, and after a shard has moved to another owner:
# `shards.sh DIRECTORY ROTA`: DIRECTORY has the programs, ROTA is `rota`.
set -eu
bin=$1 rota=$2
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT

# Starts a program, waits until it is ready, and prints its address.
serve() {
    name=$1
    shift
    "$@" >"$work/$name" &
    pids="$pids $!"
    until grep -q ready "$work/$name"; do kill -0 $!; done
    sed -n 's/^ready grpc=\([^ ]*\).*/\1/p' "$work/$name"
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
    echo "shards.sh: a collection that does not exist has answered" >&2
    exit 1
fi

# A shard has moved: the directory still names node 1, which redirects the client.
serve owner_2 "$bin/shard_owner" 2 books-0 2 >"$work/address_2"
read -r second <"$work/address_2"
serve owner_1 "$bin/shard_owner" 1 books-0 2 2 "$second" >"$work/address_1"
read -r first <"$work/address_1"
echo "default books 1 books-0 1 $first epoch=1" >"$work/map"
serve directory_2 "$rota" directory serve --map "$work/map" >"$work/address"
read -r directory <"$work/address"
test "$("$bin/shard_client" "$directory" books hello)" = "books-0: node 2 says hello"
