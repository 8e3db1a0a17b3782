"""Checks what the clients and servers of a cache have logged: nothing that must not be.

usage: get_history.py [--may-fail] [--ttl SECONDS] VALUES GETS HOST=LOG...

VALUES has KEY<TAB>VALUE on each line, all that there is to get. GETS is what get_load has
written (test/integration/get_load.c tells how), LOG what `rota cache serve` at the address
HOST has logged, of all its processes one after the other. Problems are printed, one per
line; the exit code is 1 if there are any.

  failed      a Get ended without an answer for some key (not with --may-fail)
  wrong       a key was answered with another value than its own, or by who does not hold it
  two         one epoch of a shard of a data center was two processes'
  back        a shard was gained with an epoch that is not above all before
  not-held    an answer was given under an epoch that its host had not gained by then
  over        an answer under an epoch that was over when the Get was sent: the host had
              logged its end, or another one had gained a later epoch
  stopped     an answer, to a Get sent while a host was stopped, under an epoch from before;
              only of stops for longer than the ttl, after which a lease is over by its
              holder's own clock

All times are of one machine's clock. An answer may be in flight for any time, so what a
Get may have seen is judged by when it was sent, and nothing here depends on the speed of
the machine. A stop is a line `ts=... msg="process stopped" until=...` in a host's log, from
whoever stopped it: ts is when it had stopped, until when it was let go on.
"""
import bisect
import collections
import datetime
import json
import re
import sys

EVENT = re.compile(r'ts=(\S+) .*?msg="([^"]*)"(.*)')
FACT = re.compile(r"(\w+)=(\S+)")
EPOCH_BEGAN = datetime.datetime(1970, 1, 1)

Problem = collections.namedtuple("Problem", "kind text")
EXCUSED = {"failed"}  # kinds that a starved machine can cause
Gained = collections.namedtuple("Gained", "at dc shard epoch host")
Ended = collections.namedtuple("Ended", "at dc shard epoch host")
Stopped = collections.namedtuple("Stopped", "at until host")


def parse_time(text):
    """Nanoseconds since 1970 of a time in RFC 3339, of which not one is rounded away."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = (datetime.datetime.fromisoformat(whole) - EPOCH_BEGAN) // datetime.timedelta(seconds=1)
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)


def parse_log(host, lines):
    """What happened to the leases of a host."""
    events = []
    for line in lines:
        if not (match := EVENT.match(line)):
            continue
        at, phrase, facts = parse_time(match[1]), match[2], dict(FACT.findall(match[3]))
        if phrase == "process stopped":
            events.append(Stopped(at, parse_time(facts["until"]), host))
        elif phrase in ("lease gained", "lease lost", "lease stopped"):
            kind = Gained if phrase == "lease gained" else Ended
            events.append(kind(at, facts["dc"], int(facts["shard"]), int(facts["epoch"]), host))
    return events


def check_leases(gained):
    """No epoch twice, and each later than all before."""
    owners, newest = {}, {}
    for event in sorted(gained, key=lambda event: (event.at, event.epoch)):
        place = f"{event.dc} shard {event.shard}"
        other = owners.setdefault((event.dc, event.shard, event.epoch), event)
        if other is not event:
            yield Problem("two", f"{place}: epoch {event.epoch} is {other.host}'s and {event.host}'s")
        elif event.epoch < newest.get((event.dc, event.shard), 0):
            yield Problem("back", f"{place}: {event.host} gained epoch {event.epoch} after {newest[event.dc, event.shard]}")
        newest[event.dc, event.shard] = max(event.epoch, newest.get((event.dc, event.shard), 0))


class Leases:
    """What the servers' logs tell, to be asked for each answer."""

    def __init__(self, events):
        self.gained = [event for event in events if isinstance(event, Gained)]
        self.held, self.ended, self.stops = {}, {}, collections.defaultdict(list)
        for event in events:
            if isinstance(event, Gained):
                self.held.setdefault((event.host, event.shard, event.epoch), event)
            elif isinstance(event, Ended):
                self.ended.setdefault((event.host, event.shard, event.epoch), event)
            else:
                self.stops[event.host].append(event)
        # Of each shard: the moments of gains, and the latest epoch by then.
        self.moments, self.latest = collections.defaultdict(list), collections.defaultdict(list)
        for event in sorted(self.gained):
            place = event.dc, event.shard
            before = self.latest[place][-1] if self.latest[place] else None
            self.moments[place].append(event.at)
            self.latest[place].append(event if not before or event.epoch > before.epoch else before)

    def later(self, lease, at):
        """Who had gained a later epoch by then, if anybody."""
        place = lease.dc, lease.shard
        index = bisect.bisect_left(self.moments[place], at)
        latest = self.latest[place][index - 1] if index else None
        return latest if latest and latest.epoch > lease.epoch else None

    def check(self, get, host, shard, epoch, ttl):
        """What is wrong with an answer of this host."""
        answer = f"Get {get['id']}: {host} answered for shard {shard} under epoch {epoch}"
        lease = self.held.get((host, shard, epoch))
        if not lease:
            return Problem("not-held", f"{answer}, which it has never gained")
        if get["ended"] < lease.at:
            return Problem("not-held", f"{answer}, {lease.at - get['ended']} ns before it gained that")
        ended = self.ended.get((host, shard, epoch))
        if ended and ended.at < get["sent"]:
            return Problem("over", f"{answer}, sent {get['sent'] - ended.at} ns after it had ended that")
        if later := self.later(lease, get["sent"]):
            return Problem("over", f"{answer}, sent {get['sent'] - later.at} ns after {later.host} gained {later.epoch}")
        for stop in self.stops[host]:
            if lease.at < stop.at < get["sent"] < stop.until and stop.until - stop.at > ttl:
                return Problem("stopped", f"{answer}, sent {get['sent'] - stop.at} ns after it was stopped")
        return None


def check_value(get, item, values):
    """Is this the key's value, or its absence, from who holds it?"""
    key = item["key"]
    wanted = values.get(key)
    found = item["value"] if item["state"] == "found" else None
    if found != wanted:
        return Problem("wrong", f"Get {get['id']}: {key} is {found!r} says {item['host']}, and {wanted!r} is right")
    first, end, of = item["shard"]
    if not first <= (item["hash"] % of if of else item["hash"]) < (end or float("inf")):
        return Problem("wrong", f"Get {get['id']}: {item['host']} answered for {key}, and holds [{first}, {end}) of {of}")
    return None


def check_get(get, leases, values, ttl, may_fail):
    answered = {}
    for item in get["keys"]:
        if item["state"] != "missing":
            yield check_value(get, item, values)
            answered[item["host"], item["shard"][0], item["epoch"]] = True
        elif not may_fail:
            yield Problem("failed", f"Get {get['id']}: {get['text']}")
            break
    if not get["keys"] and get["text"]:
        yield Problem("failed", f"Get {get['id']}: {get['text']}")
    for host, shard, epoch in answered:
        yield leases.check(get, host, shard, epoch, ttl)


def check(gets, events, values, ttl=0, may_fail=False):
    """All problems of a history: Gets, the events of all hosts, and the right values."""
    leases = Leases(events)
    found = list(check_leases(leases.gained))
    for get in gets:
        found += filter(None, check_get(get, leases, values, int(ttl * 1e9), may_fail))
    return found


def read_gets(lines):
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_values(lines):
    return dict(line.rstrip("\n").split("\t", 1) for line in lines)


def main(arguments):
    may_fail, ttl = False, 0
    while arguments and arguments[0].startswith("--"):
        if arguments[0] == "--may-fail":
            may_fail = True
        elif arguments[0] == "--ttl" and len(arguments) > 1:
            ttl = float(arguments.pop(1))
        else:
            break
        arguments.pop(0)
    if len(arguments) < 3 or arguments[0].startswith("--"):
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0]) as file:
        values = read_values(file)
    with open(arguments[1]) as file:
        gets = read_gets(file)
    events = []
    for argument in arguments[2:]:
        host, _, path = argument.rpartition("=")
        with open(path) as file:
            events += parse_log(host, file)
    problems = check(gets, events, values, ttl, may_fail)
    for problem in problems:
        print(f"{problem.kind}: {problem.text}")
    print(f"{len(gets)} Gets and {sum(isinstance(event, Gained) for event in events)} leases: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
