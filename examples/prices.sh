#!/bin/sh
# Starts the price service with two shards in each of two data centers, and reads prices, also after
# the loss of a data center: `prices.sh DIRECTORY`, which has the program.
set -eu
bin=$1
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT

for dc in east west; do
    for shard in 0 1; do
        "$bin/prices" serve $shard 2 >"$work/$dc$shard" &
        pids="$pids $!"
        until grep -q ready "$work/$dc$shard"; do kill -0 $!; done
        echo "$(sed -n 's/^ready grpc=//p' "$work/$dc$shard") zone=$dc" >>"$work/hosts"
    done
done

test "$("$bin/prices" get 7001 "$work/hosts")" = "9.99 EUR"
test "$("$bin/prices" get 8002 "$work/hosts")" = "12.50 EUR"
test "$("$bin/prices" get 8000 "$work/hosts")" = ""
set -- $pids
kill -KILL "$1" "$2"
test "$("$bin/prices" get 7001 "$work/hosts")" = "9.99 EUR"
test "$("$bin/prices" get 8002 "$work/hosts")" = "12.50 EUR"
kill -KILL "$3"
if "$bin/prices" get 8001 "$work/hosts" 2>"$work/error"; then
    echo "prices.sh: a shard without a server has answered" >&2
    exit 1
fi
grep -q "1 of 1 keys are missing" "$work/error"
if "$bin/prices" serve 0 0 2>"$work/error"; then
    echo "prices.sh: shard 0 of 0 was accepted" >&2
    exit 1
fi
grep -q "has no keys" "$work/error"
