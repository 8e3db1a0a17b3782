"""Stop a process with SIGSTOP where that shows what it is meant to show.

A process that is stopped in the middle of a write to a SQLite file keeps the file's lock, and
nobody else can write until it goes on: that is a limit of SQLite, which docs/leases.md states. The
same is true of a program that locks files of its own (flock) while it writes to them. Tests that are
about one host that stands still must not meet it by chance. A node locks its directory and its token
for as long as it lives: such locks are not waited for, unless a test says that its program has none."""

import os
import signal


WRITER = "120"  # the byte of SQLite's shared memory that the one who writes has locked


def is_writing(pid, has_brief_locks):
    with open("/proc/locks") as locks:
        for line in locks:  # "1: POSIX  ADVISORY  WRITE 4711 fe:00:123 120 120"
            fields = line.split()
            is_lock = (has_brief_locks and fields[1] == "FLOCK") or (fields[1] == "POSIX" and fields[6] == WRITER)
            if is_lock and fields[3:5] == ["WRITE", str(pid)]:
                return True
    return False


def stop(process, has_brief_locks=False):
    """Stopped, and outside of any write to a file that others share, when this returns."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        if not is_writing(process.pid, has_brief_locks):
            return
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        os.sched_yield()
