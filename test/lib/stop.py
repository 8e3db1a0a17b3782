"""Stop a process with SIGSTOP where that shows what it is meant to show.

A process that is stopped in the middle of a write to a SQLite file keeps the file's lock, and
nobody else can write until it continues: that is a limit of SQLite, which docs/leases.md states. The
same is true of a program that locks files of its own (flock) while it writes. Tests that are about one host that
is paused must not meet it by chance."""

import os
import signal


WRITER = "120"  # the byte of SQLite's shared memory that the one who writes has locked


def is_writing(pid, has_flocks):
    with open("/proc/locks") as locks:
        for line in locks:  # "1: POSIX  ADVISORY  WRITE 4711 fe:00:123 120 120"
            fields = line.split()
            is_lock = has_flocks if fields[1] == "FLOCK" else fields[1] == "POSIX" and fields[6] == WRITER
            if is_lock and fields[3:5] == ["WRITE", str(pid)]:
                return True
    return False


def stop(process, has_flocks=False):
    """Stopped, and outside of any write to a file that others share, when this returns. `has_flocks`: the
    program has a flock while it writes, and only then; a node has some as long as it runs."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        if not is_writing(process.pid, has_flocks):
            return
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        os.sched_yield()
