"""Waits for what others write into files, without looking again and again.

    with Watch(folder) as watch:
        line = watch.wait(look_into_the_file, 60, process)

Whatever is written in the folder, and the end of a process, is a reason to look.
"""
import contextlib
import ctypes
import os
import select
import time

IN_MODIFY, IN_CREATE, IN_MOVED_TO = 0x2, 0x100, 0x80
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Watch:
    def __init__(self, folder):
        self.fd = checked(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        checked(LIBC.inotify_add_watch(self.fd, os.fsencode(folder), IN_MODIFY | IN_CREATE | IN_MOVED_TO))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def forget(self):
        """What has been written so far."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 65536):
                pass

    def wait(self, is_done, seconds, *processes):
        """Look until it is so, a process ends or time is over; returns what was seen last."""
        give_up_at = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        with contextlib.ExitStack() as stack:
            for process in processes:
                if process.poll() is not None:
                    return is_done()
                fd = os.pidfd_open(process.pid)
                stack.callback(os.close, fd)
                poll.register(fd, select.POLLIN)
            while True:
                self.forget()  # before the look, so that nothing is missed after it
                has_ended = any(process.poll() is not None for process in processes)
                left = give_up_at - time.monotonic()
                if (result := is_done()) or has_ended or left <= 0:
                    return result
                poll.poll(left * 1000)
