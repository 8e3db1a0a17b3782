#!/bin/sh
# Three tasks copy files that split, and one is killed in the middle. Checks that no line is lost, that
# at most as many lines as the window are copied twice, and that the dead task's token is rejected.
# `copier.sh DIRECTORY`: DIRECTORY has the programs. It works in a temporary folder.
set -eu
export LC_ALL=C
bin=$(realpath "$1")
work=$(mktemp -d)
pids=
trap 'kill -KILL $pids 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir in out
window=20 # as in copier.c

fail() {
    echo "copier.sh: $1" >&2
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

# await COMMAND...: wait until the command succeeds.
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

# lines FILE: the lines copied from it, without the token before them.
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
    "$bin/copier" "sqlite:$work/group.db" $task fruit >task.$task 2>err.$task &
    pids="$pids $!"
    eval "$task=$!"
done

# Kill a task in the middle of a file; the others continue from the positions in the log.
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
echo "the others continue:"
grep -h '^start .* line=[1-9]' task.?

# Other tasks finish its files, and report that.
grep '^finish' killed >task.killed || true
await is_finished

for name in $(ls in); do
    grep -v '^=>' "in/$name" | sort >wanted
    lines "$name" | sort -u | cmp -s - wanted || fail "$name: a line is lost"
    twice=$(lines "$name" | sort | uniq -d | wc -l)
    [ "$twice" -le $window ] || fail "$name: $twice lines were copied twice"
    [ "$twice" = 0 ] || grep -q "^start $name " killed || fail "$name: copied twice, although its task was alive"
    [ "$twice" = 0 ] || echo "$name: $twice lines were copied twice"
done

# A write by the killed task, as if it had only been paused.
if "$bin/copier_late" out apples "$token" "a late line"; then
    fail "a write with an old token was accepted"
fi
