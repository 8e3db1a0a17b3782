#!/bin/sh
# In a fresh Debian, with the packages beside it: `in_chroot.sh use` installs and uses them,
# `in_chroot.sh purge` purges them and looks for what is left. package.sh runs it.
set -eux
cd /tmp/rota
export DEBIAN_FRONTEND=noninteractive

# Every file but those that apt, dpkg and adduser keep for themselves, and the users.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/cache \
        -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print |
        grep -v '^/etc/g\?\(passwd\|shadow\|roup\)-$' | sort
    find /var/lib/dpkg/info -name '*rota*'
    dpkg-query -W -f '${Package} ${Status}\n'
    cat /etc/passwd /etc/group
}

if [ "$1" = purge ]; then
    # shellcheck disable=SC2046
    apt-get purge -y $(for package in *.deb; do dpkg-deb -f "$package" Package; done)
    list_files >after
    diff before after
    exit 0
fi

# What the packages stand on, and what a developer has.
apt-get update
apt-get install -y --no-install-recommends gcc libc6-dev cmake make pkg-config curl mandoc python3 systemd
for package in *.deb; do
    dpkg-deb -f "$package" Depends | tr ',' '\n' | grep -v '^ *librota0\>' | paste -sd,
done | while read -r needs; do
    [ -z "$needs" ] || apt-get satisfy -y --no-install-recommends "$needs" </dev/null
done
list_files >before

apt-get install -y --no-install-recommends ./*.deb

# The program.
[ "$(rota --version)" = "rota $(dpkg-query -W -f '${Version}' rota)" ]
examples=/usr/share/doc/librota-dev/examples
[ "$(printf 'a\nb\n' | rota ring lookup --hosts $examples/cluster.hosts | wc -l)" = 2 ]
[ -f /usr/share/man/man1/rota-ring-lookup.1.gz ]
[ -f /usr/share/bash-completion/completions/rota ]
[ -f /usr/share/doc/rota/html/docs/start-service.html ]

# The node, much as its unit starts it (in_unit.sh has the unit itself): as its user, with the
# settings and the directory that the package made. It takes a job, and keeps it over a restart. The network is shared with a
# machine that may have a node of its own, so the ports are others.
export ROTA_LISTEN=127.0.0.1:17700 ROTA_WORKERS=127.0.0.1:17701 ROTA_HTTP=127.0.0.1:17780
start_node() {
    rm -f ready
    setpriv --reuid rota --regid rota --clear-groups rotad --config /etc/rota/rotad.toml \
        --data /var/lib/rota >ready 2>node.log &
    node=$!
    while ! grep -s '^ready ' ready; do
        kill -0 $node
        sleep 0.2
    done
}
rotad --version
mandoc /usr/share/man/man1/rotad.1.gz >/dev/null
[ "$(stat -c '%U %G %a' /var/lib/rota)" = "rota rota 700" ]
[ "$(stat -c '%U %G %a' /etc/rota)" = "root rota 750" ]
setpriv --reuid rota --regid rota --clear-groups rotad --config /etc/rota/rotad.toml --check-config
start_node
[ "$(cat ready)" = "ready grpc=127.0.0.1:17700 zmq=127.0.0.1:17701 http=127.0.0.1:17780" ]
curl -fsS http://127.0.0.1:17780/healthz
curl -fsS http://127.0.0.1:17780/readyz
curl -fsS http://127.0.0.1:17780/ | grep -i '<!doctype html>'
export ROTA_NODE=127.0.0.1:17700
id=$(rota job add --queue letters hello)
kill $node
wait $node
start_node
rota job show "$id" | grep waiting
rota work --queue letters -- tr a-z A-Z &
worker=$!
[ "$(rota job add --queue letters --wait bye)" = BYE ]
rota job show "$id" | grep HELLO
rota doctor --data /var/lib/rota
kill $worker
wait $worker
kill $node
wait $node

# A cluster to try.
unset ROTA_LISTEN ROTA_WORKERS ROTA_HTTP
rota up --nodes 2 --for 5s --json

# The library, by pkg-config and by CMake.
# shellcheck disable=SC2046 # the flags are words
cc -Wall -Werror $examples/where.c -o where $(pkg-config --cflags --libs rota)
[ "$(./where | wc -l)" = 8 ]
cmake -S . -B cmake -DWHERE_C=$examples/where.c
cmake --build cmake
[ "$(cmake/where | wc -l)" = 8 ]
