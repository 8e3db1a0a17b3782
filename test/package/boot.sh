#!/bin/sh
# Boots the systemd of another Debian, as root: boot.sh ROOT PROGRAM. It has processes, a network and
# control groups of its own, and a layer over ROOT takes what is written, so that ROOT stays as it
# is. PROGRAM is started there as a unit; what it prints comes on standard output, and its exit code
# ends all of it, or ten minutes do. Exit code 77 says that this machine does not allow it.
set -eu
root=$(cd "$1" && pwd)
program=$2
work=$(mktemp -d)
groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET || true)
group=$groups/rota-boot-$$

end() {
    # The last processes may be about to end.
    tries=50
    while [ -d "$group" ] && ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && [ $((tries -= 1)) != 0 ]; do
        sleep 0.2
    done
    rm -rf "$work"
}
trap end EXIT

# Until the last line this is the first process of another world.
cat >"$work/inside.sh" <<'EOF'
set -eu
layer=$work/layer
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/written" "$layer/work" "$layer/root"
mount -t overlay -o "lowerdir=$root,upperdir=$layer/written,workdir=$layer/work" overlay "$layer/root"
cd "$layer/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
touch run/out
mount --bind "$work/out" run/out
mkdir -p run/systemd/system
cat >run/systemd/system/boot.service <<UNIT
[Service]
Type=oneshot
ExecStart=/bin/sh -c '$program >/run/out 2>&1; systemctl --no-block exit \$\$?'
UNIT
pivot_root . mnt
umount -l mnt
exec env -i container=other LANG=C.UTF-8 /lib/systemd/systemd --unit=boot.service --log-target=journal --show-status=no
EOF

mkdir "$work/layer"
touch "$work/out"
if [ -z "$groups" ] || ! mkdir "$group" || ! unshare --mount --pid --fork --cgroup --net --uts --ipc true; then
    echo "boot: this machine gives no control groups or no namespaces" >&2
    exit 77
fi
export root work program
code=0
sh -c 'echo $$ >"$1/cgroup.procs" && exec timeout --signal=KILL 600 \
    unshare --mount --pid --fork --kill-child --cgroup --net --uts --ipc sh "$work/inside.sh"' sh "$group" || code=$?
cat "$work/out"
exit $code
