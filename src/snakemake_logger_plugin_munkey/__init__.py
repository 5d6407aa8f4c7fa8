"""The terminal output of a run: a line for each finished job, and below them a status line.

Snakemake finds this plug-in by the name of its package (`logger` in profiles/default). Snakemake's
own log file contains all messages. In a dry run, or with an option such as `--verbose`, the output
is Snakemake's usual one. Snakemake's hooks do not get all facts that the summary at the end of a
run needs, so they are stored in `munkey.experiment.outcome.SEEN`.
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
from munkey.experiment.outcome import SEEN, STOPPED, FailedJob
from munkey.experiment.run.job import IN_TERMINAL

# The beginnings of routine messages, which are not printed
ROUTINE_MESSAGES = (
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
CLEAR = "\r\x1b[K"  # returns to the beginning of the line and clears it
REDRAW_S = 1.0  # seconds between updates of the status line


class Job(NamedTuple):
    """A running job.

    Attributes
    ----------
    start
        The time at which it began, in seconds of the monotonic clock.
    """

    rule: str
    message: str
    start: float


class LogHandler(LogHandlerBase):
    """The handler of Snakemake's log records.

    Snakemake passes the records one at a time, in a thread of its own.
    """

    writes_to_stream = True
    writes_to_file = False
    needs_rulegraph = False
    # Use Snakemake's filter and formatter, which obey --quiet.
    has_filter = False
    has_formatter = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.stream = sys.stdout if settings.stdout else sys.stderr
        self.usual_handler: ColorizingTextHandler | None = None  # prints Snakemake's usual output
        if settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds:
            self.usual_handler = ColorizingTextHandler(settings.nocolor, self.stream)
        # `munkey job` runs a job in the terminal, where nothing may overwrite a debugger's prompt.
        is_silenced = IN_TERMINAL in os.environ or os.environ.get("MUNKEY_PROGRESS") == "0"
        self.is_live = self.stream.isatty() and not is_silenced
        self.job_counts: Counter[str] = Counter()
        self.messages: dict[int, str] = {}  # the messages of jobs by job number
        self.running: dict[int, Job] = {}  # by job number
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)  # of finished jobs, by rule
        self.start = time.monotonic()
        self.closed = Event()
        self.stream_lock = RLock()

    def emit(self, record: LogRecord) -> None:
        try:
            with self.stream_lock:
                self.store_facts(record)
                if self.usual_handler:
                    self.usual_handler.setFormatter(self.formatter)
                    self.usual_handler.emit(record)
                else:
                    self.handle_event(record)
        except Exception:  # an error in the output must not stop the run
            self.handleError(record)

    def store_facts(self, record: LogRecord) -> None:
        """Store the facts that the messages at the end of the run depend on."""
        fields = vars(record)
        event = fields.get("event")
        if event == LogEvent.RUN_INFO:
            SEEN.is_dry = self.common_settings.dryrun
            SEEN.has_jobs = True
        elif event is None and record.getMessage().startswith(NOTHING_TO_DO):
            SEEN.has_nothing_to_do = not self.common_settings.dryrun
        elif event == LogEvent.JOB_INFO:
            self.messages[fields["jobid"]] = fields["rule_msg"] or fields["rule_name"]
            SEEN.failed.pop(fields["jobid"], None)  # the job failed and is retried (`--retries`)
        elif event == LogEvent.JOB_ERROR and fields["log"]:
            message = self.messages.get(fields["jobid"], fields["rule_name"])
            SEEN.failed[fields["jobid"]] = FailedJob(message, fields["log"][0])

    def handle_event(self, record: LogRecord) -> None:
        """Keep track of the jobs, and print what has changed."""
        fields = vars(record)
        event = fields.get("event")
        if event == LogEvent.RUN_INFO:
            self.begin_run(fields["stats"])
        elif self.job_counts and event == LogEvent.JOB_INFO:
            number = fields["jobid"]
            self.running[number] = Job(fields["rule_name"], self.messages[number], time.monotonic())
            self.draw_status()
        elif self.job_counts and event == LogEvent.JOB_FINISHED:
            self.finish_job(self.running.pop(fields["job_id"]))
        elif self.job_counts and event == LogEvent.JOB_ERROR:
            self.running.pop(fields["jobid"], None)
            message = self.messages.get(fields["jobid"], fields["rule_name"])
            outcome = "stopped" if STOPPED.is_set() else "FAILED"
            self.print_line(f"{outcome}: {message}; its log: {', '.join(fields['log'])}")
        elif event == LogEvent.ERROR or (event is None and record.msg):
            self.print_message(record)

    def begin_run(self, stats: dict[str, int]) -> None:
        """Print the number of jobs, and start to redraw the status line.

        Parameters
        ----------
        stats
            The number of jobs by rule, and in `total`.
        """
        self.job_counts = Counter(stats)
        del self.job_counts["total"]
        self.start = time.monotonic()
        total = self.job_counts.total()
        self.print_line(pluralize(total, "job"))
        if self.is_live:
            Thread(target=self.redraw_regularly, daemon=True).start()

    def finish_job(self, job: Job) -> None:
        """Print a line about a finished job."""
        seconds = time.monotonic() - job.start
        self.seconds[job.rule].append(seconds)
        self.print_line(
            f"{self.percent:>4}  {self.time_left:20}  {format_duration(seconds):>9}  {job.message}"
        )

    @property
    def percent(self) -> str:
        """The percentage of finished jobs, rounded down, so 100% means that no job remains."""
        finished_count = sum(len(times) for times in self.seconds.values())
        return f"{100 * finished_count // self.job_counts.total()}%"

    @property
    def time_left(self) -> str:
        """The estimated time left; empty until a tenth of the jobs have finished, and at the end.

        A job is expected to take as long as the finished jobs of its rule on average, or as all
        finished jobs if its rule has none.
        """
        now = time.monotonic()
        all_seconds: list[float] = []
        for times in self.seconds.values():
            all_seconds += times
        if not all_seconds or 10 * len(all_seconds) < self.job_counts.total():
            return ""
        expected_seconds = {}
        remaining_seconds = 0.0
        for rule, count in self.job_counts.items():
            times = self.seconds.get(rule) or all_seconds
            expected_seconds[rule] = sum(times) / len(times)
            remaining_count = count - len(self.seconds.get(rule, []))
            remaining_seconds += remaining_count * expected_seconds[rule]
        job_seconds = sum(all_seconds)
        for job in self.running.values():
            running_for = now - job.start
            job_seconds += running_for
            remaining_seconds -= min(running_for, expected_seconds[job.rule])
        if remaining_seconds <= 0 or not job_seconds:
            return ""
        # Assume that as many jobs run in parallel as so far on average.
        parallel_jobs = job_seconds / (now - self.start)
        return f"about {format_duration(remaining_seconds / parallel_jobs)} left"

    def redraw_regularly(self) -> None:
        while not self.closed.wait(REDRAW_S):
            with self.stream_lock:
                self.draw_status()

    def print_message(self, record: LogRecord) -> None:
        """Print a message from Snakemake, unless it is routine or repeats that a job failed."""
        text = self.format(record)
        if record.levelno < WARNING and text.startswith(ROUTINE_MESSAGES):
            return
        if self.job_counts and text.startswith("RuleException:\nCalledProcessError"):
            return
        if STOPPED.is_set() and text.startswith(
            "WorkflowError:\nAt least one job did not complete"
        ):
            return
        self.print_line(text)

    def print_line(self, text: str) -> None:
        """Print a line in place of the status line, and redraw the status line below it."""
        prefix = CLEAR if self.is_live else ""
        self.stream.write(f"{prefix}{text}\n")
        self.draw_status()
        self.stream.flush()

    def draw_status(self) -> None:
        """Redraw the status line if jobs are running on a terminal. It is cut to one line."""
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
