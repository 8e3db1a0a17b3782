#!/bin/sh
# The tour of docs/cache.md, from the first server to the loss of a data center:
# `cache.sh ROTA`: ROTA is the program.
set -eu
rota=$(realpath "$1")
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$work"' EXIT
cd "$work"
export ROTA_STORE=sqlite:$work/cache.db

n=0
# serve DC SHARDS [OPTION...]: starts a server and waits until it is ready; its pid is in $!.
serve() {
    dc=$1 shards=$2
    shift 2
    n=$((n + 1))
    mkfifo "out$n"
    "$rota" cache serve --dc "$dc" --shards "$shards" --source file:fruit --ttl 2s "$@" >"out$n" 2>"err$n" &
    pids="$pids $!"
    read -r line <"out$n" || fail "a server did not start: $(cat "err$n")"
    case $line in ready*) ;; *) fail "a server says: $line" ;; esac
}

fail() {
    echo "cache.sh: $1" >&2
    exit 1
}

# check WHEN: reads all keys and compares the values.
check() {
    cut -f1 fruit | "$rota" get --timeout 30s - >got || fail "$1: a key was not answered"
    cmp -s fruit got || fail "$1: a wrong answer"
}

# rows DC N: checks that the list of leases has N shards of the data center.
rows() {
    "$rota" lease list >leases
    [ "$(cut -f1 leases | grep -c "$1")" = "$2" ] || fail "$1 should have $2 shards: $(cat leases)"
}

# asked: prints the data centers that a Get asked, each once.
asked() {
    "$rota" get --explain --timeout 30s apple pear grape lime >explained
    sed '1,/^$/d' explained | cut -f2 | sort -u
}

printf 'apple\tgreen\npear\tyellow\ngrape\tblue\nlime\tgreen\n' >fruit
for dc in east west; do
    serve $dc 2
    eval "${dc}1=$!"
    serve $dc 2
    eval "${dc}2=$!"
    rows $dc 2
done
check "two data centers"
for key in apple pear grape lime; do
    echo $(($(echo $key | "$rota" ring hash) % 4))
done | sort -u >shards
[ "$(wc -l <shards)" -eq 4 ] || fail "each of 4 shards should have a key"

kill -KILL "$east1"
check "a server is killed"

# 2 -> 4 shards, one data center after the other.
kill "$east2"
wait "$east2"
check "east is gone"
east=
for _ in 1 2 3 4; do
    serve east 4 --reshard
    east="$east $!"
done
rows east 4
check "east has 4 shards, west 2"
kill "$west1" "$west2"
wait "$west1" "$west2"
check "west is gone"
west=
for _ in 1 2 3 4; do
    serve west 4 --reshard
    west="$west $!"
done
rows west 4
check "both have 4 shards"

# Kill a whole data center at once.
kill -KILL $east
check "east is lost"
[ "$(asked)" = west ] || fail "only west should be asked: $(cat explained)"
