#!/bin/sh
# Starts the echo server, calls it from both clients, and drains it:
# `echo.sh DIRECTORY`, which has the programs.
set -eu
bin=$1
out=$(mktemp)
"$bin/echo_server" >"$out" &
server=$!
trap 'kill $server 2>/dev/null || true; rm -f "$out"' EXIT
until grep -q ready "$out"; do kill -0 $server; done
address=$(sed -n 's/^ready grpc=//p' "$out")

test "$("$bin/echo_wait" "$address" "hello there")" = "hello there"
"$bin/echo_client" "$address" 20000 128
kill -TERM $server
wait $server
trap 'rm -f "$out"' EXIT
if "$bin/echo_wait" "$address" "anyone?"; then
    echo "echo.sh: a stopped server has answered" >&2
    exit 1
fi
