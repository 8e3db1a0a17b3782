#!/bin/sh
# A small tournament: two programs play Nim, each match is a job, and two workers run the matches. One
# worker is killed in the middle, and every match is in the table exactly once.
# `tournament.sh [ROTA [MATCHES]]`: ROTA is the program, by default `rota` on PATH. It works in a
# temporary folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rota=$(command -v "${1:-rota}") || {
    echo "tournament.sh: there is no program ${1:-rota in PATH}; name one: tournament.sh ROTA" >&2
    exit 1
}
rota=$(realpath "$rota")
matches=${2:-24}
work=$(mktemp -d)
pids=
trap 'kill -KILL $pids 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

"$rota" broker --data jobs --listen 127.0.0.1:0 >broker.out 2>broker.log &
pids=$!
until grep -q '^ready' broker.out; do
    kill -0 $pids || { cat broker.log >&2; exit 1; }
    sleep 0.05
done
ROTA_NODE=$(sed -n 's/^ready grpc=\([^ ]*\).*/\1/p' broker.out)
export ROTA_NODE

# Starts a worker: two matches at a time, none longer than a minute.
worker() {
    "$rota" work --queue nim --can referee --slots 2 --timeout 1m --lease 8s --kill-after 2s \
        --name "$1" --log-level debug -- python3 "$here/tournament.py" match 2>"$1.log" &
    pids="$pids $!"
}
worker red
red=$!
worker blue

python3 "$here/tournament.py" matches "$matches" |
    "$rota" job add --queue nim --can referee --attempts 100 --lines - >/dev/null
until grep -q 'job started' red.log; do sleep 0.05; done
kill -KILL $red # in the middle of a match, which blue plays again

"$rota" queue wait-empty nim --timeout 10m
"$rota" job list --queue nim --state done --limit "$matches" | cut -f1 |
    while read -r job; do "$rota" job show "$job" --json; done >results
python3 "$here/tournament.py" table <results

[ "$(wc -l <results)" -eq "$matches" ] || { echo "matches are missing" >&2; exit 1; }
