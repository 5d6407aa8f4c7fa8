"""What a run says on the terminal: a line for each job that ends, and below them one that says how long it still takes.

Snakemake finds it by the name of this package (`logger` in profiles/default). Snakemake's own log has everything.
Where nothing runs, or everything was asked for (`-n`, `--verbose`), Snakemake says what it always does.
"""

import os
import shutil
import sys
from logging import WARNING, LogRecord
from threading import Event, RLock, Thread

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from munkey.experiment.run.job import IN_TERMINAL
from munkey.experiment.run.outcome import STOPPED
from munkey.experiment.run.progress import Progress

CHATTER = (
    "Assuming unrestricted shared filesystem", "Building DAG of jobs", "Conda environments: ignored",
    "Group jobs: inactive", "Removing output files of failed job", "Select jobs to execute",
    "Singularity containers: ignored", "Using shell:",
)  # fmt: skip
CLEAR = "\r\x1b[K"  # to the beginning of the line, and empty it
TICK_S = 1.0


class LogHandler(LogHandlerBase):
    """Runs in a thread of its own, which Snakemake hands its records to, one after the other."""

    writes_to_stream, writes_to_file, needs_rulegraph = True, False, False
    has_filter, has_formatter = False, False  # Snakemake's, which obey --quiet

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.stream = sys.stdout if settings.stdout else sys.stderr
        self.usual: ColorizingTextHandler | None = None
        if settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds:
            self.usual = ColorizingTextHandler(settings.nocolor, self.stream)
        self.moves = self.stream.isatty() and IN_TERMINAL not in os.environ  # a debugger prompts there
        self.progress: Progress | None = None
        self.ended, self.drawing = Event(), RLock()

    def emit(self, record: LogRecord) -> None:
        if self.usual:
            self.usual.setFormatter(self.formatter)
            self.usual.emit(record)
            return
        try:
            with self.drawing:
                self.hear(record)
        except Exception:  # whatever it is: a run does not stop because of what is said about it
            self.handleError(record)

    def hear(self, record: LogRecord) -> None:
        """Take in what Snakemake says, and pass on what somebody who waits wants to know."""
        facts, progress = vars(record), self.progress
        event = facts.get("event")
        if event == LogEvent.RUN_INFO:
            self.begin({rule: count for rule, count in facts["stats"].items() if rule != "total"})
        elif progress and "work" in facts:
            progress.work = facts["work"]
        elif progress and event == LogEvent.JOB_INFO:
            progress.begin(facts["jobid"], facts["rule_name"], facts["rule_msg"] or facts["rule_name"])
            self.draw()
        elif progress and event == LogEvent.JOB_FINISHED:
            self.say(progress.end(facts["job_id"]))
        elif progress and event == LogEvent.JOB_ERROR:
            what = progress.fail(facts["jobid"]) or facts["rule_name"]
            self.say(f"{'stopped' if STOPPED.is_set() else 'FAILED'}: {what}; its log: {', '.join(facts['log'])}")
        elif event == LogEvent.ERROR or (event is None and record.msg):
            self.pass_on(record)

    def begin(self, jobs: dict[str, int]) -> None:
        self.progress = Progress(jobs)
        self.say("1 job" if sum(jobs.values()) == 1 else f"{sum(jobs.values())} jobs")
        if self.moves:
            Thread(target=self.tick, daemon=True).start()

    def tick(self) -> None:
        while not self.ended.wait(TICK_S):
            with self.drawing:
                self.draw()

    def pass_on(self, record: LogRecord) -> None:
        """Say what Snakemake says, but for the usual steps of a run, and what follows from a script that failed."""
        text = self.format(record)
        is_chatter = record.levelno < WARNING and text.startswith(CHATTER)
        is_script = bool(self.progress) and text.startswith("RuleException:\nCalledProcessError")
        is_script |= STOPPED.is_set() and text.startswith("WorkflowError:\nAt least one job did not complete")
        if not (is_chatter or is_script):
            self.say(text)

    def say(self, text: str) -> None:
        """Say something for good, above the line that moves."""
        self.stream.write(f"{CLEAR * self.moves}{text}\n")
        self.draw()
        self.stream.flush()

    def draw(self) -> None:
        """Draw the line that moves, on a terminal, while jobs run. It never wraps."""
        if self.moves and self.progress and self.progress.running:
            self.stream.write(CLEAR + self.progress.status[: shutil.get_terminal_size().columns - 1])
            self.stream.flush()

    def close(self) -> None:
        self.ended.set()
        if self.moves and self.progress:
            self.stream.write(CLEAR)
            self.stream.flush()
        super().close()
