#!/bin/sh
# A guided tour: runs Rota's commands on a sample cluster and shows each one, once ./dev build has
# built them; or those in another directory: tour.sh [DIRECTORY].
set -eu
programs=${1:-build/src/cli}
cd "$(dirname "$0")/.."
PATH=$(cd "$programs" && pwd):$PATH

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
    bold='' plain=''
fi

# show TEXT COMMAND: prints the text and the command, and runs it.
show() {
    printf '\n%s\n%s$ %s%s\n' "$1" "$bold" "$2" "$plain"
    sh -c "$2"
}

echo "Rota computes where a shard belongs. Every process that knows the same hosts gets the same answer."

show "The cluster: twelve hosts in two zones." \
    "rota hosts check examples/cluster.hosts"

show "Who owns these keys? Three replicas each, spread over the zones." \
    "printf 'user:1\nuser:2\nuser:3\n' | rota ring lookup --hosts examples/cluster.hosts -n 3"

show "Where are the partitions of a queue? With a batch of 4 they never share a host." \
    "rota route --hosts examples/cluster.hosts --namespace shop --queue orders --type workflow --partitions 8 --batch 4 --mode slots"

show "What would move if a host joined? Mode slots stays close to the minimum." \
    "rota plan --hosts examples/cluster.hosts --queues 500 --partitions 8 --batch 8 --mode slots --add '10.0.1.7:7000 zone=east'"

show "The same with mode lookup, for comparison." \
    "rota plan --hosts examples/cluster.hosts --queues 500 --partitions 8 --batch 8 --mode lookup --add '10.0.1.7:7000 zone=east' | head -n 5"

show "Can the rest absorb the loss of a zone?" \
    "rota plan --hosts examples/cluster.hosts --queues 500 --partitions 8 --batch 8 --mode slots --remove-zone west"

show "Settings are per namespace, queue and type; this is what one queue gets, and why." \
    "rota config show examples/cluster.toml --namespace shop --queue orders --type workflow"

show "A gradual change switches key by key: which value has this key now, and when does it switch?" \
    "rota gradual --key shop:orders:1 --start 1769904000000000000 --end 1769907600000000000 --now 1769905800000000000"

printf '\nMore: %srota --help%s (in build/src/cli), README.md, docs/placement.md.\n' "$bold" "$plain"
