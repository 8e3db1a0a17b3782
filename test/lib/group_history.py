"""Checks what the tasks of a group have printed: nothing that must not be.

usage: group_history.py [--session SECONDS] FILE...

Each FILE is the output of one process of `rota group join`, one JSON object per line; a
restart is another file. Whoever runs the processes adds lines of its own to it:
  {"event": "killed", "at": T}               from T on it may be dead, by SIGKILL
  {"event": "asked", "at": T}                from T on it may be leaving
  {"event": "paused", "at": T, "until": T}   it did nothing in between
Problems are printed, one per line; the exit code is 1 if there are any.

  two        a partition was started twice under one token, or by two
  back       a partition was started under a lower token than before
  overlap    a partition was read by two at once
  late       a read under a token after another one had started under a higher one
  woken      a read, after a pause for longer than the session, under a token from before
  early      a partition was started before all its parents were finished
  finished   a partition was read after it was finished, or finished twice
  lost       a partition is not finished, and no living task has it
  moved      a partition was stopped though its task was well, or given to another task
  gap        a reader left something out
  repeat     a reader began below a position that was committed before
  watermark  it went back, or something below it was read later
  epoch      one number for two epochs, or two leaders in one
  broken     a line that is none

All times are of one machine's boot clock. A line is printed after what it tells of has
happened, so a process may tell late of what another has seen already: nothing here is
decided by the order of two processes' lines, but for readers, which must not overlap.
"""
import collections
import json
import sys

Problem = collections.namedtuple("Problem", "kind text")
EXCUSED = {"broken", "lost", "moved"}  # kinds that a starved machine can cause


class Reader:
    """One start of a partition, and what came of it."""

    def __init__(self, life, event):
        self.life, self.partition, self.token = life, event["partition"], event["token"]
        self.at, self.mark, self.parents = event["at"], event["mark"], event.get("parents", [])
        self.reads, self.stop, self.stopped, self.finish = [], None, None, None
        self.lost_at = None  # when its task lost the log or the group

    def __str__(self):
        return f"{self.partition} under {self.token} by {self.life.name}"

    def last_at(self):
        """When it was seen to read for the last time."""
        return self.reads[-1]["at"] if self.reads else self.at

    def is_over(self):
        return bool(self.stopped or self.finish or self.life.killed_at is not None or self.is_done())

    def is_done(self):
        """It has read everything and was not told to stop; its finish did not count, or was not told of."""
        return self.lost_at is not None and not self.stop

    def end(self):
        """Until when it may have read; None: until now."""
        if self.is_done():
            return self.last_at()
        ends = [event["at"] for event in (self.stopped, self.finish) if event]
        ends += [] if self.life.killed_at is None else [self.life.killed_at]
        return max(min(ends), self.last_at()) if ends else None

    def was_paused(self, at):
        """It could not read then, and did not after."""
        return any(pause["at"] <= at <= pause["until"] and self.last_at() <= pause["at"] for pause in self.life.pauses)


class Life:
    """One process: its events in their order. Lines may come bit by bit."""

    def __init__(self, name, lines=()):
        self.name, self.events, self.readers, self.by_token = name, [], [], {}
        self.pauses, self.problems, self.is_broken = [], [], False
        self.killed_at, self.asked_at = None, None
        self.feed(lines)

    def feed(self, lines):
        for line in filter(str.strip, lines):
            try:
                event = json.loads(line)
                kind, _ = event["event"], event["at"]
            except (ValueError, KeyError, TypeError):
                self.is_broken = True
                continue
            if kind == "killed":
                self.killed_at = event["at"]
                self.is_broken = False
            elif kind == "asked":
                self.asked_at = event["at"]
            elif kind == "paused":
                self.pauses.append(event)
            else:
                self.add(kind, event)

    def add(self, kind, event):
        if self.is_broken:
            self.problems.append(Problem("broken", f"{self.name}: there is no event before {event}"))
            self.is_broken = False
        self.events.append(event)
        key = event.get("partition"), event.get("token")
        if kind == "start":
            reader = Reader(self, event)
            self.by_token.setdefault(key, reader)
            self.readers.append(reader)
        elif kind in ("read", "stop", "stopped", "finish"):
            self.tell(kind, event, self.by_token.get(key))
        elif kind in ("lost", "failed", "left"):
            for reader in self.readers:
                reader.lost_at = event["at"] if reader.lost_at is None else reader.lost_at

    def tell(self, kind, event, reader):
        if reader and kind == "read":
            reader.reads.append(event)
        elif reader:
            setattr(reader, kind, getattr(reader, kind) or event)
        else:
            self.problems.append(Problem("broken", f"{self.name}: {event} of what was not started"))

    def close(self):
        """All lines are there. The last one of a process that was killed may be half a line."""
        if self.is_broken and self.killed_at is None:
            self.problems.append(Problem("broken", f"{self.name}: its last line is no event"))


class History:
    """What all processes have told, by partition."""

    def __init__(self, lives):
        self.lives, self.made = lives, {}
        self.readers = {}  # in the order of tokens
        self.progress = collections.defaultdict(list)  # what was committed: (offset, mark)
        self.finishes, self.removed, self.parents = collections.defaultdict(list), set(), {}
        self.watermarks = []  # (at, mark) of all
        for life in lives:
            for event in life.events:
                self.add(event)
            for reader in life.readers:
                self.readers.setdefault(reader.partition, []).append(reader)
        for readers in self.readers.values():
            readers.sort(key=lambda reader: (reader.token, reader.at))
        self.watermarks.sort()
        # Parents of what was started.
        self.begun = {parent for life in lives for reader in life.readers for parent in reader.parents}

    def add(self, event):
        kind, name = event["event"], event.get("partition")
        if kind in ("own", "share", "start"):
            self.made[name] = min(event["at"], self.made.get(name, event["at"]))
            self.parents.setdefault(name, event.get("parents", []))
        elif kind == "finish":
            self.finishes[name].append(event)
        elif kind == "remove":
            self.removed.add(name)
        elif kind == "progress":
            self.progress[name].append((event["offset"], event["mark"]))
        elif kind == "watermark":
            self.watermarks.append((event["at"], event["mark"]))

    def is_finished(self, name):
        """As far as was told. Who is killed right after its finish does not tell; the children do."""
        return name in self.finishes or name in self.removed or name in self.begun

    def unread(self, made_before=float("inf")):
        """Partitions that could be read, and that no living task reads."""
        return sorted(name for name, at in self.made.items()
                      if at < made_before and not self.is_finished(name)
                      and all(self.is_finished(parent) for parent in self.parents[name])
                      and all(reader.is_over() for reader in self.readers.get(name, [])))

    def unknown(self):
        """Parents that nobody has made."""
        return sorted({parent for name, parents in self.parents.items() for parent in parents
                       if parent not in self.made and not self.is_finished(parent)})


# --- rules ---


def check_owners(history):
    """At most one owner per partition and token, tokens that grow, one reader at a time."""
    for readers in history.readers.values():
        for before, after in zip(readers, readers[1:]):
            if before.token == after.token:
                yield Problem("two", f"{before}, and by {after.life.name}")
                continue
            if after.at < before.at:
                yield Problem("back", f"{before} was started after {after}")
                continue
            end = before.end()
            if before.was_paused(after.at):
                continue
            if end is None:
                yield Problem("overlap", f"{before} is read on, and {after}")
            elif end > after.at:
                yield Problem("overlap", f"{before} was read for {end - after.at} ns after the start of {after}")
        yield from check_late(readers)


def check_late(readers):
    for index, reader in enumerate(readers):
        later = min((other.at for other in readers[index + 1:] if other.token > reader.token), default=None)
        late = [read for read in reader.reads if later is not None and read["at"] > later]
        if late:
            yield Problem("late", f"{reader}: {late[0]}, {late[0]['at'] - later} ns after another had started")


def check_pauses(history, session):
    """What was stopped for longer than its session reads nothing more of what it had."""
    for life in history.lives:
        for pause in (pause for pause in life.pauses if pause["until"] - pause["at"] > session):
            for reader in life.readers:
                late = [read for read in reader.reads if reader.at < pause["at"] and read["at"] > pause["until"]]
                if late:
                    yield Problem("woken", f"{reader}: {late[0]}, {late[0]['at'] - pause['at']} ns after it was paused")


def check_parents(history):
    for readers in history.readers.values():
        for child in readers:
            for parent in child.parents:
                yield from check_parent(history, child, parent)


def check_parent(history, child, parent):
    readers = history.readers.get(parent, [])
    late = [reader for reader in readers if reader.at > child.at or reader.last_at() > child.at]
    if late:
        yield Problem("early", f"{child} was started before the last read of {late[-1]}")
    elif parent in history.finishes or parent in history.removed:
        return
    elif not readers:
        yield Problem("early", f"{child} was started and its parent {parent} never")
    elif not (readers[-1].life.killed_at is not None or readers[-1].is_done()):
        yield Problem("early", f"{child} was started and {readers[-1]} is not finished")


def check_finished(history):
    for name, finishes in history.finishes.items():
        offsets = sorted(event["offset"] for event in finishes)
        if len(offsets) > 1:
            yield Problem("finished", f"{name} was finished at {offsets}")
        for reader in history.readers.get(name, []):
            if reader.token > offsets[0]:
                yield Problem("finished", f"{reader} was started and it was finished at {offsets[0]}")
            elif reader.finish and reader.last_at() > reader.finish["at"]:
                yield Problem("finished", f"{reader} was read after it was finished")


def check_lost(history):
    for name in history.unread():
        yield Problem("lost", f"{name} is not finished, and no living task reads it")
    for name in history.unknown():
        yield Problem("lost", f"{name} has children, and was never made")


def check_moved(history):
    """A task stops only what it must: it leaves, it has lost the group, it has agreed to hand it over."""
    for life in history.lives:
        for index, event in enumerate(life.events):
            if event["event"] == "stop" and not is_explained(life, index, event):
                yield Problem("moved", f"{life.name}: {event}, and it was well")


def is_explained(life, index, stop):
    if life.asked_at is not None and stop["at"] >= life.asked_at:
        return True
    for event in life.events[index + 1:]:
        if event["event"] == "move" and event["partition"] == stop["partition"] and event["offset"] > stop["token"]:
            return True
        if event["event"] == "start" and event["partition"] == stop["partition"]:
            break
    for events in (life.events[index + 1:], reversed(life.events[:index])):
        for event in events:
            if event["event"] in ("lost", "failed"):
                return True
            if event["event"] == "start":
                break
    return False


def check_reads(history):
    """From where the last owner was, and from no earlier than what was committed."""
    for name, readers in history.readers.items():
        reached = readers[0].mark
        for reader in readers:
            committed = max((mark for offset, mark in history.progress[name] if offset < reader.token), default=reader.mark)
            if reader.mark > reached:
                yield Problem("gap", f"{reader} begins at {reader.mark}, and {reached} was reached")
            if reader.mark < committed:
                yield Problem("repeat", f"{reader} begins at {reader.mark}, and {committed} was committed")
            at = reader.mark
            for read in reader.reads:
                if read["from"] != at or read["to"] < read["from"]:
                    yield Problem("gap", f"{reader}: {read} after {at}")
                at = read["to"]
            reached = max(reached, at)


def check_watermark(history):
    for life in history.lives:
        newest = {}
        for event in (event for event in life.events if event["event"] == "watermark"):
            before = newest.get(event["incarnation"], event["mark"])
            if event["mark"] < before:
                yield Problem("watermark", f"{life.name}: {event} after {before}")
            newest[event["incarnation"]] = max(event["mark"], before)
    highest, at = None, 0
    for reader in sorted((reader for readers in history.readers.values() for reader in readers), key=lambda reader: reader.at):
        while at < len(history.watermarks) and history.watermarks[at][0] < reader.at:
            highest = max(history.watermarks[at][1], highest if highest is not None else history.watermarks[at][1])
            at += 1
        if highest is not None and reader.mark < highest:
            yield Problem("watermark", f"{reader} begins at {reader.mark} when the watermark was {highest}")


def check_epochs(history):
    members, leaders = {}, {}
    for life in history.lives:
        for event in (event for event in life.events if event["event"] == "epoch"):
            number, tasks = event["epoch"], sorted(event["tasks"])
            if members.setdefault(number, tasks) != tasks:
                yield Problem("epoch", f"{number} is of {members[number]} and of {tasks}")
            if event["is_leader"] and leaders.setdefault(number, life.name) != life.name:
                yield Problem("epoch", f"{number} is led by {leaders[number]} and by {life.name}")


def check(lives, session=None, is_over=True):
    """All problems of a history; `session` in nanoseconds. While it continues, what is on its
    way from one to the next is not lost."""
    history = History(lives)
    found = [problem for life in lives for problem in life.problems]
    for rule in (check_owners, check_parents, check_finished, check_moved, check_reads, check_watermark, check_epochs):
        found += rule(history)
    if is_over:
        found += check_lost(history)
    if session is not None:
        found += check_pauses(history, session)
    return found


def main(arguments):
    session = None
    if len(arguments) > 1 and arguments[0] == "--session":
        session, arguments = int(float(arguments[1]) * 1e9), arguments[2:]
    if not arguments or arguments[0].startswith("--"):
        print(__doc__, file=sys.stderr)
        return 2
    lives = []
    for path in arguments:
        with open(path, errors="replace") as file:
            lives.append(Life(path, file))
        lives[-1].close()
    problems = check(lives, session)
    for problem in problems:
        print(f"{problem.kind}: {problem.text}")
    history = History(lives)
    print(f"{len(lives)} processes, {len(history.made)} partitions, "
          f"{sum(len(life.readers) for life in lives)} readers: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
