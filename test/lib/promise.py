"""Promises that no slow machine excuses: no job is lost or done twice, no two own a shard.

`./dev test` runs a program that failed once more, because a busy machine may have starved it. It
never does so when the output of the program has a line with `broken promise: `.

    promise.check(not twice, f"{twice} were done twice")
"""
BROKEN = "broken promise: "


class Broken(AssertionError):
    pass


def check(is_kept, text):
    if not is_kept:
        raise Broken(BROKEN + text)
