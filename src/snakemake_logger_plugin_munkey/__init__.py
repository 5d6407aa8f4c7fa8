"""The output of a run on the terminal: a line for each job that ends, and below them the time left.

Snakemake finds it by the name of this package (`logger` in profiles/default). Snakemake's own log
has everything. In a dry run, or with `--verbose`, Snakemake prints its usual lines. Facts that
Snakemake's hooks do not pass to the end of a run are noted in `munkey.experiment.run.outcome.SEEN`.
"""

import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from logging import WARNING, LogRecord
from threading import Event, RLock, Thread
from typing import NamedTuple

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from munkey.core.console import format_duration, pluralize
from munkey.experiment.run.job import IN_TERMINAL
from munkey.experiment.run.outcome import SEEN, STOPPED, FailedJob

CHATTER = (
    "Assuming unrestricted shared filesystem",
    "Building DAG of jobs",
    "Conda environments: ignored",
    "Group jobs: inactive",
    "Removing output files of failed job",
    "Select jobs to execute",
    "Singularity containers: ignored",
    "Using shell:",
)
NOTHING_TO_DO = "Nothing to be done"
CLEAR = "\r\x1b[K"  # to the beginning of the line, and empty it
TICK_S = 1.0


class Job(NamedTuple):
    """A job that runs. start: in seconds, of the monotonic clock."""

    rule: str
    message: str
    start: float


class LogHandler(LogHandlerBase):
    """Snakemake passes it one record after the other, in a thread of its own."""

    writes_to_stream = True
    writes_to_file = False
    needs_rulegraph = False
    # Filter and formatter are Snakemake's, which obey --quiet.
    has_filter = False
    has_formatter = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.stream = sys.stdout if settings.stdout else sys.stderr
        self.usual: ColorizingTextHandler | None = None
        if settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds:
            self.usual = ColorizingTextHandler(settings.nocolor, self.stream)
        # In a terminal of its own, a job's debugger prompts: nothing must overwrite it.
        self.is_live = self.stream.isatty() and IN_TERMINAL not in os.environ
        self.job_counts: Counter[str] = Counter()
        self.messages: dict[int, str] = {}  # of jobs, by their numbers
        self.running: dict[int, Job] = {}
        # of jobs that ended, by rule
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.start = time.monotonic()
        self.closed = Event()
        self.drawing = RLock()

    def emit(self, record: LogRecord) -> None:
        try:
            with self.drawing:
                self.note(record)
                if self.usual:
                    self.usual.setFormatter(self.formatter)
                    self.usual.emit(record)
                else:
                    self.handle_event(record)
        except Exception:  # a run does not stop because of a line about it
            self.handleError(record)

    def note(self, record: LogRecord) -> None:
        """Note the facts that the run's last words depend on."""
        fields = vars(record)
        event = fields.get("event")
        if event == LogEvent.RUN_INFO:
            SEEN.is_dry = self.common_settings.dryrun
            SEEN.has_jobs = True
        elif event is None and record.getMessage().startswith(NOTHING_TO_DO):
            SEEN.has_nothing_to_do = not self.common_settings.dryrun
        elif event == LogEvent.JOB_INFO:
            self.messages[fields["jobid"]] = fields["rule_msg"] or fields["rule_name"]
            SEEN.failed.pop(fields["jobid"], None)  # it failed and begins again (`--retries`)
        elif event == LogEvent.JOB_ERROR and fields["log"]:
            message = self.messages.get(fields["jobid"], fields["rule_name"])
            SEEN.failed[fields["jobid"]] = FailedJob(message, fields["log"][0])

    def handle_event(self, record: LogRecord) -> None:
        """Count jobs, and pass on the news for the person who waits."""
        fields = vars(record)
        event = fields.get("event")
        if event == LogEvent.RUN_INFO:
            self.begin(fields["stats"])
        elif self.job_counts and event == LogEvent.JOB_INFO:
            number = fields["jobid"]
            self.running[number] = Job(fields["rule_name"], self.messages[number], time.monotonic())
            self.draw()
        elif self.job_counts and event == LogEvent.JOB_FINISHED:
            self.end(self.running.pop(fields["job_id"]))
        elif self.job_counts and event == LogEvent.JOB_ERROR:
            self.running.pop(fields["jobid"], None)
            message = self.messages.get(fields["jobid"], fields["rule_name"])
            outcome = "stopped" if STOPPED.is_set() else "FAILED"
            self.say(f"{outcome}: {message}; its log: {', '.join(fields['log'])}")
        elif event == LogEvent.ERROR or (event is None and record.msg):
            self.pass_on(record)

    def begin(self, stats: dict[str, int]) -> None:
        self.job_counts = Counter(stats)
        del self.job_counts["total"]
        self.start = time.monotonic()
        total = self.job_counts.total()
        self.say(pluralize(total, "job"))
        if self.is_live:
            Thread(target=self.tick, daemon=True).start()

    def end(self, job: Job) -> None:
        seconds = time.monotonic() - job.start
        self.seconds[job.rule].append(seconds)
        self.say(
            f"{self.percent:>5}  {self.time_left:20}  {format_duration(seconds):>9}  {job.message}"
        )

    @property
    def percent(self) -> str:
        """The share of jobs that ended, rounded down: 100% means that none remains."""
        ended = sum(len(times) for times in self.seconds.values())
        return f"{100 * ended // self.job_counts.total()}%"

    @property
    def time_left(self) -> str:
        """About how long the rest takes; empty before a tenth of the jobs ended, and at the end.

        A job is expected to take as long as those of its rule on average, or as all that ended if
        none of its rule did.
        """
        now = time.monotonic()
        ended: list[float] = []
        for times in self.seconds.values():
            ended += times
        if not ended or 10 * len(ended) < self.job_counts.total():
            return ""
        typical = {}
        remaining = 0.0
        for rule, count in self.job_counts.items():
            times = self.seconds.get(rule) or ended
            typical[rule] = sum(times) / len(times)
            remaining += (count - len(self.seconds.get(rule, []))) * typical[rule]
        busy = sum(ended)
        for job in self.running.values():
            running_for = now - job.start
            busy += running_for
            remaining -= min(running_for, typical[job.rule])
        if remaining <= 0 or not busy:
            return ""
        # As many jobs at once as so far will do the rest.
        return f"about {format_duration(remaining * (now - self.start) / busy)} left"

    def tick(self) -> None:
        while not self.closed.wait(TICK_S):
            with self.drawing:
                self.draw()

    def pass_on(self, record: LogRecord) -> None:
        """Print a message of Snakemake, except routine steps and what follows from a failed script."""
        text = self.format(record)
        if record.levelno < WARNING and text.startswith(CHATTER):
            return
        if self.job_counts and text.startswith("RuleException:\nCalledProcessError"):
            return
        if STOPPED.is_set() and text.startswith(
            "WorkflowError:\nAt least one job did not complete"
        ):
            return
        self.say(text)

    def say(self, text: str) -> None:
        """Print a line that stays, above the one that moves."""
        self.stream.write(f"{CLEAR * self.is_live}{text}\n")
        self.draw()
        self.stream.flush()

    def draw(self) -> None:
        """On a terminal, draw the line that moves while jobs run. It never wraps."""
        if not self.is_live or not self.running:
            return
        time_left = f", {self.time_left}" if self.time_left else ""
        messages = "; ".join(job.message for job in self.running.values())
        status = f"{self.percent} of {self.job_counts.total()} jobs{time_left}: {messages}"
        self.stream.write(CLEAR + status[: shutil.get_terminal_size().columns - 1])
        self.stream.flush()

    def close(self) -> None:
        self.closed.set()
        if self.is_live and self.job_counts:
            self.stream.write(CLEAR)
            self.stream.flush()
        super().close()
