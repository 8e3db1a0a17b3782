#!/bin/sh
# A player of Nim: reads how many stones are left, prints how many it takes. It leaves a
# multiple of four whenever it can.
while read -r stones; do
    take=$((stones % 4))
    [ $take -gt 0 ] || take=1
    echo $take
done
