#!/bin/sh
# In a fresh Debian, with the packages beside it: installs them, uses them, purges them, and
# looks for what is left. package.sh runs it.
set -eux
cd /tmp/rota
export DEBIAN_FRONTEND=noninteractive

# Every file but those that apt and dpkg keep for themselves.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache \
        -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort
    find /var/lib/dpkg/info -name '*rota*'
    dpkg-query -W -f '${Package} ${Status}\n'
}

# What the packages stand on, and what a developer has.
apt-get update
apt-get install -y --no-install-recommends gcc libc6-dev cmake make pkg-config
for package in *.deb; do
    dpkg-deb -f "$package" Depends | tr ',' '\n' | grep -v '^ *librota1\>' | paste -sd,
done | while read -r needs; do
    apt-get satisfy -y --no-install-recommends "$needs" </dev/null
done
list_files >before

apt-get install -y --no-install-recommends ./*.deb

# The program.
[ "$(rota --version)" = "rota $(dpkg-query -W -f '${Version}' rota)" ]
examples=/usr/share/doc/librota-dev/examples
[ "$(printf 'a\nb\n' | rota ring lookup --hosts $examples/cluster.hosts | wc -l)" = 2 ]
[ -f /usr/share/man/man1/rota-ring-lookup.1.gz ]
[ -f /usr/share/bash-completion/completions/rota ]

# The library, by pkg-config and by CMake.
# shellcheck disable=SC2046 # the flags are words
cc -Wall -Werror $examples/where.c -o where $(pkg-config --cflags --libs rota)
[ "$(./where | wc -l)" = 8 ]
cmake -S . -B cmake -DWHERE_C=$examples/where.c
cmake --build cmake
[ "$(cmake/where | wc -l)" = 8 ]

# shellcheck disable=SC2046
apt-get purge -y $(for package in *.deb; do dpkg-deb -f "$package" Package; done)
list_files >after
diff before after
