#!/bin/sh
# The tour of docs/cache.md, from the first server to the loss of a data centre:
# `cache.sh ROTA`, the program.
set -eu
rota=$(realpath "$1")
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
export ROTA_STORE=sqlite:$work/cache.db

n=0
# serve DC SHARDS [OPTION...]: one server; its pid is in $!.
serve() {
    dc=$1 shards=$2
    shift 2
    n=$((n + 1))
    "$rota" cache serve --dc "$dc" --shards "$shards" --source file:fruit --ttl 2s "$@" >"out$n" 2>"err$n" &
    pids="$pids $!"
    until grep -qs ready "out$n"; do kill -0 $!; done
}

fail() {
    echo "cache.sh: $1" >&2
    exit 1
}

# All values, from whoever has them.
check() {
    cut -f1 fruit | "$rota" get - >got || fail "$1: a key was not answered"
    cmp -s fruit got || fail "$1: a wrong answer"
}

printf 'apple\tgreen\npear\tyellow\nplum\tblue\ncherry\tred\n' >fruit
for dc in east west; do
    serve $dc 2
    eval "${dc}1=$!"
    serve $dc 2
    eval "${dc}2=$!"
done
check "two data centres"

kill -KILL "$east1"
check "a server is killed"

# 2 -> 4 shards, one data centre after the other.
kill "$east2"
wait "$east2"
for _ in 1 2 3 4; do serve east 4 --reshard; done
check "east has 4 shards, west 2"
kill "$west1" "$west2"
wait "$west1" "$west2"
check "west is gone"
for _ in 1 2 3 4; do serve west 4 --reshard; done
check "both have 4 shards"
