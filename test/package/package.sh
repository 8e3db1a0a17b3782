#!/bin/sh
# Builds the Debian packages of the working tree, looks at them with lintian, and tries them
# out on a fresh Debian: package.sh DIRECTORY [--chroot]. ./dev package runs it.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
directory=$1
with_chroot=${2:-}
say() { printf '%s\n' "package: $*" >&2; }

rm -rf "$directory"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# --- build ---

say "building into $directory/"
mkdir "$directory/rota"
(cd "$top" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$directory/rota")
(cd "$directory/rota" && dpkg-buildpackage -b -us -uc) >"$directory/build.log" 2>&1 || {
    tail -n 60 "$directory/build.log" >&2
    say "the build failed, see $directory/build.log"
    exit 1
}
rm -rf "$directory/rota"
# It has no source package, and nobody has asked for it.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
    "$directory"/*.changes
mkdir "$directory/debug"
mv "$directory"/*-dbgsym_*.deb "$directory/debug/"
ls "$directory"/*.deb
[ "$with_chroot" = --chroot ] || exit 0

# --- a fresh Debian ---

root=$directory/root
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Identifier: Packages' | head -n 1)
say "making a Debian ${mirror#* } in $root/"
debootstrap --variant=minbase "${mirror#* }" "$root" "${mirror% *}" >"$directory/debootstrap.log" 2>&1 || {
    tail -n 20 "$directory/debootstrap.log" >&2
    exit 1
}
rm -rf "$root/etc/apt"
cp -a /etc/apt "$root/etc/apt"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir "$root/tmp/rota"
cp "$directory"/*.deb "$top/test/package/CMakeLists.txt" "$top/test/package/in_chroot.sh" "$root/tmp/rota/"
cp "$top/test/package/in_unit.sh" "$root/root/"
(cd "$top" && cp --parents test/integration/test_tour.py test/lib/own_mounts.py test/lib/tap.py docs/start-*.md "$root/tmp/rota/")

# step LOG COMMAND...: a part of it, whose output is of interest when it fails.
step() {
    log=$directory/$1.log
    shift
    code=0
    "$@" >"$log" 2>&1 || code=$?
    if [ $code != 0 ] && [ $code != 77 ]; then
        tail -n 60 "$log" >&2
        say "that failed, see $log"
        exit 1
    fi
    return $code
}

# In namespaces of their own, so that neither processes nor mounts are left however it ends; the
# pages, which name ports, also in a network of their own.
network=
inside() {
    # shellcheck disable=SC2086 # no word, or one
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" $network \
        chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

say "installing and using the packages there"
step use inside sh /tmp/rota/in_chroot.sh use
say "pasting the pages that need nothing but the packages"
network=--net
step pages inside ROTA_TEST_MOUNTS=own sh -c 'mount -t devpts -o ptmxmode=0666 devpts /dev/pts && cd /tmp/rota &&
    python3 test/integration/test_tour.py /usr docs/start-queue.md docs/start-cache.md docs/start-group.md'
network=
say "booting it, with the node in its unit"
step unit sh "$top/test/package/boot.sh" "$root" 'sh /root/in_unit.sh' ||
    say "NOT TRIED: $(tail -n 1 "$directory/unit.log")"
say "purging the packages"
step purge inside sh /tmp/rota/in_chroot.sh purge
rm -rf "$root"
say "all of it works, and nothing was left"
