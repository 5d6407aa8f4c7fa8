"""What a run says on the terminal: a line for each job, what went wrong, and on a terminal a line that moves."""

import io
import logging
from dataclasses import dataclass

import pytest
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

import snakemake_logger_plugin_munkey as plugin
from munkey.experiment.outcome import STOPPED, FailedJob, Observations
from snakemake_logger_plugin_munkey import CLEAR, LogHandler


@dataclass
class Settings:
    """Snakemake's, as the default profile sets them."""

    dryrun: bool = False
    verbose: bool = False
    debug_dag: bool = False
    printshellcmds: bool = False
    stdout: bool = False
    nocolor: bool = True
    quiet: frozenset = frozenset()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def said(monkeypatch):
    """What is said on a stream of these records, each a message, an event and its fields."""

    def of(*records, stream=None, **settings):
        stream = stream or io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(plugin, "SEEN", Observations())
        handler = LogHandler(Settings(**settings), None)
        handler.addFilter(
            DefaultFilter(
                frozenset(),
                False,
                handler.common_settings.verbose,
                handler.common_settings.dryrun,
                False,
            )
        )
        handler.setFormatter(DefaultFormatter())
        for message, event, fields in records:
            level = logging.ERROR if event in (LogEvent.ERROR, LogEvent.JOB_ERROR) else logging.INFO
            record = logging.makeLogRecord(
                {"msg": message, "levelno": level, "levelname": "INFO", "event": event, **fields}
            )
            handler.handle(record)
        handler.close()
        return stream.getvalue()

    return of


def info(message):
    return message, None, {}


def began(number, what, rule="train"):
    return "job", LogEvent.JOB_INFO, {"jobid": number, "rule_name": rule, "rule_msg": what}


def finished(number):
    return "job", LogEvent.JOB_FINISHED, {"job_id": number}


STATS = "stats", LogEvent.RUN_INFO, {"stats": {"train": 1, "all": 1, "total": 2}}
RUN = [
    info("Building DAG of jobs..."),
    STATS,
    began(1, "train it"),
    finished(1),
    began(2, None),
    finished(2),
]


def test_a_run_says_how_many_jobs_it_has_and_a_line_for_each(said):
    first, *lines = said(*RUN, info("Complete log(s): x.log")).splitlines()
    assert first == "2 jobs" and lines.pop() == "Complete log(s): x.log"
    assert [line.split()[0] for line in lines] == ["50%", "100%"]
    # where a rule has no message, its name
    assert lines[0].endswith(" s  train it") and lines[1].endswith(" s  train")


def test_on_a_terminal_one_line_moves_and_nothing_is_left_of_it(said):
    text = said(*RUN[:3], info("A file changed."), *RUN[3:], stream=Terminal())
    assert (
        f"{CLEAR}0% of 2 jobs: train it{CLEAR}A file changed.\n{CLEAR}0% of 2 jobs: train it{CLEAR}"
        in text
    )
    rows = [row.rpartition(CLEAR)[2] for row in text.split("\n")]
    assert rows[:2] == ["2 jobs", "A file changed."] and rows[-1] == "" and len(rows) == 5


def test_a_line_that_moves_never_wraps(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = said(STATS, began(1, "x" * 100), stream=Terminal())
    assert max(len(part) for row in text.split("\n") for part in row.split(CLEAR)) == 29


def test_a_failed_job_is_named_with_its_log_and_not_with_the_call_of_its_script(said):
    failed = {"jobid": 1, "rule_name": "train", "rule_msg": None, "log": ["logs/train.log"]}
    call = (
        "RuleException:\nCalledProcessError in file 'train.smk', line 33:\nCommand 'x' returned 1."
    )
    text = said(
        *RUN[:3],
        (call, LogEvent.ERROR, {"exception": "RuleException"}),
        ("x", LogEvent.JOB_ERROR, failed),
    )
    assert text.splitlines()[1:] == ["FAILED: train it; its log: logs/train.log"]


def test_no_job_failed_that_ctrl_c_stopped(said, monkeypatch):
    monkeypatch.setattr(STOPPED, "_flag", True)
    stopped = {"jobid": 1, "rule_name": "train", "rule_msg": None, "log": ["logs/train.log"]}
    end = "WorkflowError:\nAt least one job did not complete successfully.", LogEvent.ERROR, {}
    text = said(*RUN[:3], ("x", LogEvent.JOB_ERROR, stopped), end)
    assert text.splitlines()[1:] == ["stopped: train it; its log: logs/train.log"]


def test_what_stops_a_run_before_its_first_job_is_said_in_full(said):
    text = said(
        info("Building DAG of jobs..."),
        ("WorkflowError:\nthe parameters are not valid", LogEvent.ERROR, {}),
    )
    assert text == "WorkflowError:\nthe parameters are not valid\n"


@pytest.mark.parametrize("asked", ["verbose", "dryrun"])
def test_where_everything_is_asked_for_snakemake_says_what_it_always_does(said, asked):
    text = said(*RUN, **{asked: True})
    assert "Building DAG of jobs..." in text and "% " not in text


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass between records: a record ("wait", seconds) moves the plug-in's clock."""
    now = [0.0]
    monkeypatch.setattr(plugin.time, "monotonic", lambda: now[0])
    handle = LogHandler.handle_event

    def wait_or_handle(handler, record):
        if record.msg == "wait":
            now[0] += record.seconds
        else:
            handle(handler, record)

    monkeypatch.setattr(LogHandler, "handle_event", wait_or_handle)


def wait(seconds):
    return "wait", None, {"seconds": seconds}


def stats(**jobs):
    return "stats", LogEvent.RUN_INFO, {"stats": {**jobs, "total": sum(jobs.values())}}


def run_of(number, rule, seconds):
    return [began(number, f"do {rule}", rule), wait(seconds), finished(number)]


def test_the_time_left_counts_the_jobs_left_of_each_rule(said, clock):
    """After a table of 1 s and trainings of 10 and 14 s, the last training takes about 12 s."""
    records = [stats(train=3, table=1), *run_of(0, "table", 1), *run_of(1, "train", 10)]
    lines = said(*records, *run_of(2, "train", 14), *run_of(3, "train", 12)).splitlines()
    assert lines[-2] == " 75%  about 12 s left            14 s  do train"
    assert lines[-1] == "100%                             12 s  do train"


def test_nothing_is_said_of_the_time_left_before_a_tenth_of_the_jobs_ended(said, clock):
    lines = said(stats(train=20), *run_of(0, "train", 5), *run_of(1, "train", 5)).splitlines()
    assert "left" not in lines[1] and "about 90 s left" in lines[2]


def test_a_rule_of_which_no_job_ended_takes_as_long_as_the_others(said, clock):
    lines = said(
        stats(train=1, table=2, page=1), *run_of(0, "train", 10), *run_of(1, "table", 4)
    ).splitlines()
    assert "about 11 s left" in lines[-1]  # a table of 4 s and a page of 7


def test_jobs_that_run_at_once_shorten_the_time_left(said, clock):
    both = [began(0, "one"), began(1, "two"), wait(10), finished(0), finished(1)]
    # 4 x 10 s, two at once
    assert "about 20 s left" in said(stats(train=6), *both).splitlines()[-1]


def test_a_job_that_runs_counts_as_far_as_it_is(said, clock):
    records = [
        stats(train=3),
        *run_of(0, "train", 10),
        began(1, "train it"),
        wait(4),
        info("A file changed."),
    ]
    text = said(*records, stream=Terminal())
    assert text.count("33% of 3 jobs, about 16 s left: train it") == 1


def test_a_job_that_failed_and_begins_again_is_counted_once(said, clock):
    failed = {"jobid": 0, "rule_name": "train", "rule_msg": None, "log": ["logs/train.log"]}
    error = ("x", LogEvent.JOB_ERROR, failed)
    lines = said(stats(train=2), began(0, "one"), error, error, *run_of(0, "train", 5)).splitlines()
    assert lines[-1].startswith(" 50%")


FAILURE = (
    "x",
    LogEvent.JOB_ERROR,
    {"jobid": 1, "rule_name": "train", "rule_msg": None, "log": ["logs/train.log"]},
)
NOTHING = info("Nothing to be done (all requested files are present and up to date).")


@pytest.mark.parametrize("verbose", [False, True])
def test_what_failed_is_noted_for_the_end_of_the_run(said, verbose):
    said(*RUN[:3], FAILURE, verbose=verbose)
    assert (
        Observations(failed={1: FailedJob("train it", "logs/train.log")}, has_jobs=True)
        == plugin.SEEN
    )


def test_a_job_that_failed_and_then_succeeded_did_not_fail(said):
    said(*RUN[:3], FAILURE, *RUN[2:])
    assert plugin.SEEN.failed == {}


@pytest.mark.parametrize(
    ("records", "dryrun", "expected"),
    [
        ([NOTHING], False, Observations(has_nothing_to_do=True)),
        ([NOTHING], True, Observations()),
        (RUN[:2], True, Observations(is_dry=True, has_jobs=True)),
        ([info("Building DAG of jobs...")], False, Observations()),  # as with --unlock or --lint
    ],
)
def test_whether_there_is_anything_to_do_is_noted(said, records, dryrun, expected):
    said(*records, dryrun=dryrun)
    assert expected == plugin.SEEN
