#!/bin/sh
# A player of Nim: reads how many stones are left and prints how many it takes, at random.
# `tournament_careless.sh SEED`: the same seed plays the same way.
chance=${1:-1}
while read -r stones; do
    chance=$(((chance * 1103515245 + 12345) % 2147483648))
    take=$((chance / 65536 % 3 + 1))
    [ $take -le "$stones" ] || take=$stones
    echo $take
done
