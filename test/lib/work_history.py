"""What submitters and workers of a queue have logged, and whether it could have been so.

    history = History()
    history.read(path)            # of each process, submitters first; work_load.c has the lines
    problems = history.check()    # sentences; none is well

Everybody writes before and after each step that may be the last one: a worker that was killed
between the two leaves its attempt in doubt. The rules, for each job:

- whoever does it was given what was added: a job that somebody asked for, and that was not
  refused; its payload; and it can do what the job needs;
- an attempt is handed out once;
- one completion is accepted at most, and nothing is handed out after it;
- what was acknowledged is completed: by an attempt that was accepted, or is in doubt and the
  last one that anybody was given."""

ADDED, ACKNOWLEDGED, REFUSED, DOUBTFUL = 1, 2, 4, 8
# What is known of an attempt.
GOT, DOUBT, ENDED, FAILING, FAILED, STALE, GONE = range(7)
SHOWN_MAX = 20


class Job:
    __slots__ = ("flags", "can", "attempts")

    def __init__(self):
        self.flags = 0
        self.can = "-"
        self.attempts = None  # number -> what is known of it

    def accepted(self):
        return [number for number, state in (self.attempts or {}).items() if state == ENDED]


class History:
    def __init__(self):
        self.jobs = {}
        self.problems = []
        self.n_problems = 0

    def complain(self, job, text):
        self.n_problems += 1
        if len(self.problems) < SHOWN_MAX:
            self.problems.append(f"job {job:032x}: {text}")

    def read(self, path):
        name = str(path).rsplit("/", 1)[-1]
        can = None
        with open(path, encoding="ascii") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # it was killed as it wrote
                words = line.split()
                if words[0] == "can":
                    can = set(words[1:])
                elif words[0] in ("add", "ack", "no", "doubt"):
                    self.read_submitter(words)
                else:
                    self.read_worker(name, can, words)

    def job(self, text):
        number = int(text, 16)
        job = self.jobs.get(number)
        if job is None:
            job = self.jobs[number] = Job()
        return number, job

    def read_submitter(self, words):
        number, job = self.job(words[1])
        if words[0] == "add":
            if job.flags:
                self.complain(number, "added twice under one id")
            job.flags |= ADDED
            job.can = words[2]
        elif words[0] == "ack":
            if job.flags & ~DOUBTFUL != ADDED:
                self.complain(number, "acknowledged, but not asked for, or again")
            job.flags |= ACKNOWLEDGED
        elif words[0] == "doubt":
            job.flags |= DOUBTFUL
        else:
            job.flags |= REFUSED

    def read_worker(self, name, can, words):
        number, job = self.job(words[1])
        attempt = int(words[2])
        if job.attempts is None:
            job.attempts = {}
        before = job.attempts.get(attempt)
        if words[0] == "got":
            if before is not None:
                self.complain(number, f"attempt {attempt} was handed out twice, also to {name}")
            if words[3] != "good":
                self.complain(number, f"{name} got another payload than was added")
            job.attempts[attempt] = GOT
            if job.can != "-" and job.can not in can:
                self.complain(number, f"it needs {job.can}; {name} can do {' '.join(sorted(can)) or 'nothing'}")
            return
        after = {("end", GOT): DOUBT, ("fail", GOT): FAILING, ("ok", DOUBT): ENDED, ("ok", FAILING): FAILED,
                 ("stale", DOUBT): STALE, ("stale", FAILING): STALE, ("gone", DOUBT): GONE,
                 ("gone", FAILING): STALE}.get((words[0], before))
        if after is None:
            self.complain(number, f"{name} says '{words[0]}' of attempt {attempt} at a wrong time")
        else:
            job.attempts[attempt] = after

    def check_job(self, number, job):
        attempts = job.attempts or {}
        accepted = job.accepted()
        last = max(attempts, default=None)
        if attempts and not job.flags & ADDED:
            self.complain(number, "handed out, but nobody has added it")
        if attempts and job.flags & REFUSED:
            self.complain(number, "handed out, though its add was refused")
        if len(accepted) > 1:
            self.complain(number, f"completed {len(accepted)} times: attempts {sorted(accepted)}" +
                          (", its add was made again" if job.flags & DOUBTFUL else ""))
        if accepted and last > max(accepted):
            self.complain(number, f"attempt {last} was handed out after attempt {max(accepted)} had completed it")
        if not job.flags & ACKNOWLEDGED or accepted:
            return
        if not attempts:
            self.complain(number, "acknowledged and never handed out")
        elif attempts[last] not in (DOUBT, GONE):
            self.complain(number, f"acknowledged and never completed: attempt {last} was the last")

    def check(self):
        for number, job in self.jobs.items():
            self.check_job(number, job)
        if self.n_problems > len(self.problems):
            self.problems.append(f"... and {self.n_problems - len(self.problems)} more")
        return self.problems

    def count(self):
        states = [state for job in self.jobs.values() for state in (job.attempts or {}).values()]
        flags = [job.flags for job in self.jobs.values()]
        return {"jobs": len(flags),
                "acknowledged": sum(1 for flag in flags if flag & ACKNOWLEDGED),
                "refused": sum(1 for flag in flags if flag & REFUSED),
                "attempts": len(states),
                "completed": states.count(ENDED),
                "in_doubt": states.count(DOUBT) + states.count(GONE),
                "failed": states.count(FAILED),
                "stale": states.count(STALE)}
