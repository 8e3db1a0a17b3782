"""Mounts that nobody else sees and that are gone with the test.

    IS_OWN = own_mounts.enter()           # first of all: the program may begin again
    own_mounts.mount_tmpfs(path, "32m")   # only when that is true

With enter(*own_mounts.MACHINE) ports and processes are its own, too: all of them are free, and
whatever it started ends with it.
"""
import fcntl
import os
import socket
import struct
import subprocess
import sys

MACHINE = ("--net", "--pid", "--fork", "--kill-child", "--mount-proc")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def enter(*more):
    """Be in a mount namespace of our own, and in what else is named, if this machine lets us."""
    if os.environ.get("ROTA_TEST_MOUNTS") == "own":
        return True
    for options in (["--mount", *more], ["--mount", *more, "--user", "--map-root-user"]):
        try:
            is_allowed = subprocess.run(["unshare", *options, "true"], capture_output=True).returncode == 0
        except FileNotFoundError:
            return False
        if is_allowed:
            os.environ["ROTA_TEST_MOUNTS"] = "own"
            os.execvp("unshare", ["unshare", *options, sys.executable, *sys.argv])
    return False


def raise_loopback():
    """Have 127.0.0.1 in a network of our own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def mount_tmpfs(path, size):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
