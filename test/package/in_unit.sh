#!/bin/sh
# On a Debian that was booted with the packages installed: the node in its unit, with all that the
# unit takes from it, and with something to do for each of its roles. boot.sh runs it.
set -eux
trap 'code=$?; [ $code = 0 ] || journalctl --no-pager --unit rotad | tail -n 40; exit $code' EXIT

property() { systemctl show --value --property "$1" rotad; }
# await COMMAND...: until it succeeds. Whoever runs this gives up some time.
await() { until "$@"; do sleep 0.2; done; }
serves() { [ "$(curl -fsS http://127.0.0.1:7780/readyz)" = serving ]; }
has_restarted() { [ "$(property NRestarts)" = "$1" ] && serves; }

systemctl is-enabled rotad
printf 'apple\t3\npear\t5\n' >/etc/rota/prices
cat >/etc/rota/rotad.toml <<'SETTINGS'
ttl = "2s"
[[space]]
name = "orders"
[[space]]
name = "carts"
engine = "lease"
shards = 8
[[cache]]
name = "prices"
source = "file:/etc/rota/prices"
shards = 1
[[group]]
name = "sales"
SETTINGS
systemctl start rotad
serves

# What it may do.
pid=$(property MainPID)
for line in "Uid:$(printf '\t%s' $(id -u rota) $(id -u rota) $(id -u rota) $(id -u rota))" \
    "CapEff:	0000000000000000" "CapBnd:	0000000000000000" "NoNewPrivs:	1" "Seccomp:	2"; do
    grep -x "$line" /proc/$pid/status
done
# The root of its file system, as it sees it, is read-only; /tmp is its own.
grep -E '^[^ ]+ [^ ]+ [^ ]+ [^ ]+ / ro,' /proc/$pid/mountinfo
touch /tmp/mark
[ ! -e /proc/$pid/root/tmp/mark ]
[ "$(stat -c '%U %a' /var/lib/rota)" = "rota 700" ]

# What it does: jobs, values, shards, pages.
export ROTA_NODE=127.0.0.1:7700
id=$(rota job add --queue letters hello)
rota work --queue letters -- tr a-z A-Z &
worker=$!
[ "$(rota job add --queue letters --wait bye)" = BYE ]
await sh -c 'rota get apple | grep 3'
await sh -c 'rota space show orders --json | grep "\"n_owned\": *64"'
await sh -c 'rota space show carts --json | grep "\"n_owned\": *8"'
rota node list | grep serving
curl -fsS http://127.0.0.1:7780/metrics | grep '^rota_'
curl -fsS http://127.0.0.1:7780/api/v1/groups | grep sales

# Settings are read again; a restart keeps jobs; whatever ends it, it is started again.
echo 'drain-limit = "7s"' | cat - /etc/rota/rotad.toml >/etc/rota/new
mv /etc/rota/new /etc/rota/rotad.toml
systemctl reload rotad
await sh -c 'journalctl --unit rotad | grep "setting changed.*drain-limit"'
systemctl restart rotad
await sh -c "rota job show $id | grep HELLO"
kill -9 "$(property MainPID)"
await has_restarted 1

# One whose loop does not turn any more is ended by the watchdog.
mkdir -p /run/systemd/system/rotad.service.d
printf '[Service]\nWatchdogSec=5s\nTimeoutAbortSec=1s\n' >/run/systemd/system/rotad.service.d/soon.conf
systemctl daemon-reload
systemctl restart rotad
kill -STOP "$(property MainPID)"
await has_restarted 1
journalctl --unit rotad | grep -i 'watchdog timeout'

kill $worker
wait $worker
systemctl stop rotad
[ "$(property Result)" = success ]
