#!/bin/sh
# Three tasks copy files that split; one is killed in the middle. No line is lost, none
# is copied twice beyond the window, and who was replaced can't write any more:
# `connector.sh DIRECTORY`, where the programs are. It works in a folder of its own.
set -eu
export LC_ALL=C
bin=$(realpath "$1")
work=$(mktemp -d)
pids=
trap 'kill -KILL $pids 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir in out
window=20 # as in connector.c

fail() {
    echo "connector.sh: $1" >&2
    tail -n 5 task.* killed err.* >&2 2>/dev/null
    exit 1
}

# file NAME LINES CHILD...: a file to copy.
file() {
    name=$1 lines=$2
    shift 2
    seq -f "$name line %g" "$lines" >"in/$name"
    echo "=> $*" >>"in/$name"
}

# await COMMAND...: until it is so.
await() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "never: $*"
        sleep 0.05 # between two looks
    done
}

is_finished() {
    [ "$(cat task.* | sed -n 's/^finish \([^ ]*\).*/\1/p' | sort -u)" = "$(ls in)" ]
}

# lines FILE: those copied from it, without the token in front.
lines() {
    tail -n +2 "out/$1"
}

file fruit 200 apples pears plums
for fruit in apples pears plums; do
    file $fruit 500 $fruit.big $fruit.small
    file $fruit.big 100
    file $fruit.small 100
done

for task in a b c; do
    "$bin/connector" "sqlite:$work/group.db" $task fruit >task.$task 2>err.$task &
    pids="$pids $!"
    eval "$task=$!"
done

# One that is in the middle of a file is killed; the others go on from what the log knows.
is_under_way() {
    [ -s out/apples ] && [ "$(lines apples | wc -l)" -ge 100 ]
}
await is_under_way
killed=$(grep -l '^start apples ' task.?)
token=$(sed -n 's/^start apples token=\([0-9]*\) .*/\1/p' "$killed")
eval "kill -KILL \$${killed#task.}"
mv "$killed" killed
await grep -qs '^start apples ' task.?
echo "task ${killed#task.} is killed; it had:"
grep '^start' killed
echo "the others go on:"
grep -h '^start .* line=[1-9]' task.?

# Whatever it had is finished by another, and told of by who finished it.
grep '^finish' killed >task.killed || true
await is_finished

for name in $(ls in); do
    grep -v '^=>' "in/$name" | sort >wanted
    lines "$name" | sort -u | cmp -s - wanted || fail "$name: a line is lost"
    twice=$(lines "$name" | sort | uniq -d | wc -l)
    [ "$twice" -le $window ] || fail "$name: $twice lines are there twice"
    [ "$twice" = 0 ] || grep -q "^start $name " killed || fail "$name: copied twice, and its task lived"
    [ "$twice" = 0 ] || echo "$name: $twice lines are there twice"
done

# The one that was killed comes back from a pause, as it were, and writes on.
if "$bin/connector_late" out apples "$token" "a late line"; then
    fail "a token that is over has written"
fi
