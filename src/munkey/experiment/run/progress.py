"""How far a run is and about how long it still takes, from the jobs that have ended so far.

A job is assumed to take as long as those of its rule took on average. Where none or few of a rule have ended yet,
`work` says how the rule compares with the one that has the most (munkey.experiment.cost.estimate.work_of).
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Job(NamedTuple):
    rule: str
    what: str
    begun: float

    def since(self, now: float) -> float:
        return now - self.begun


class Progress:
    """A run that is going on. jobs: how many of each rule; work: of a job of some of the rules, in any unit."""

    def __init__(self, jobs: Mapping[str, int], clock: Callable[[], float] = time.monotonic) -> None:
        self.jobs, self.clock, self.start = dict(jobs), clock, clock()
        self.work: Mapping[str, float] = {}
        self.running: dict[int, Job] = {}
        self.ended: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}  # of all that ended, by rule

    def begin(self, number: int, rule: str, what: str) -> None:
        """A job begins, perhaps again."""
        self.running[number] = Job(rule, what, self.clock())

    def fail(self, number: int) -> str:
        """A job has ended without a result. Returns what it was; nothing where it did not run."""
        return job.what if (job := self.running.pop(number, None)) else ""

    def end(self, number: int) -> str:
        """A job has ended. Returns the line that says so."""
        job = self.running.pop(number)
        seconds = job.since(self.clock())
        self.ended[job.rule] += 1
        self.seconds[job.rule] = self.seconds.get(job.rule, 0.0) + seconds
        return f"{self.percent:>5}  {self.left:20}  {duration(seconds):>9}  {job.what}"

    @property
    def status(self) -> str:
        """All that there is to say while it goes on: the whole, and what runs now."""
        left = f", {self.left}" if self.left else ""
        running = "; ".join(job.what for job in self.running.values())
        return f"{self.percent} of {sum(self.jobs.values())} jobs{left}: {running}"

    @property
    def percent(self) -> str:
        """Of jobs. Rounded down, so that 100 % means that nothing is left."""
        return f"{100 * self.ended.total() // sum(self.jobs.values())} %"

    @property
    def left(self) -> str:
        """The time left in words; empty where nothing can be said yet, or nothing is left."""
        return f"about {duration(seconds)} left" if (seconds := self.seconds_left) else ""

    @property
    def seconds_left(self) -> float | None:
        """As many jobs at once as so far do all that is left. None before the first job whose work is known."""
        now = self.clock()
        if not self.ended or self._unit is None:
            return None
        work = sum((count - self.ended[rule]) * self._typical(rule) for rule, count in self.jobs.items())
        done = sum(min(job.since(now), self._typical(job.rule)) for job in self.running.values())
        busy = sum(self.seconds.values()) + sum(job.since(now) for job in self.running.values())
        return (work - done) * (now - self.start) / busy if busy else None

    @property
    def _unit(self) -> float | None:
        """Seconds for a unit of work, by the rule with the most of it; None before its first job, 0 without such rules.

        Jobs of other rules differ too much: KNN unlearns in no time, and would promise a short run.
        """
        ours = [rule for rule in self.work if rule in self.jobs]
        if not ours:
            return 0.0
        most = max(ours, key=lambda rule: self.work[rule])
        return self._mean(most) / self.work[most] if most in self.ended else None

    def _typical(self, rule: str) -> float:
        """Seconds of a job of a rule that is still to end: the more have ended, the more their mean counts.

        The first of a rule may be unlike the rest: KNN unlearns in no time. One of which nothing is known is like the
        others whose work is not known.
        """
        expected = self.work.get(rule, 0.0) * (self._unit or 0.0)
        if rule in self.ended:
            known = min(1.0, self.ended[rule] / self.jobs.get(rule, 1)) if expected else 1.0
            return known * self._mean(rule) + (1 - known) * expected
        others = [self._mean(each) for each in self.ended if each not in self.work] or [0.0]
        return expected or sum(others) / len(others)

    def _mean(self, rule: str) -> float:
        return self.seconds[rule] / self.ended[rule]


def duration(seconds: float) -> str:
    """A length of time, as exact as anybody needs it: 0.4 s, 12 s, 4 min, 2 h 5 min."""
    minutes = round(seconds / 60)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
