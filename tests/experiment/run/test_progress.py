"""While a run goes on, it is said how far it is and about how long it still takes."""

import pytest

from munkey.experiment.run.progress import Progress, duration


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def after(progress: Progress, seconds: float, number: int, rule: str) -> str:
    """The line of a job that took so long."""
    progress.begin(number, rule, f"do {rule}")
    progress.clock.now += seconds
    return progress.end(number)


def test_a_job_is_expected_to_last_as_long_as_those_of_its_rule_did(clock):
    progress = Progress({"train": 3, "table": 1}, clock)
    after(progress, 1, 0, "table")
    after(progress, 10, 1, "train")
    assert after(progress, 14, 2, "train") == " 75 %  about 12 s left            14 s  do train"
    assert progress.seconds_left == pytest.approx(12)
    assert after(progress, 12, 3, "train") == "100 %                             12 s  do train"


def test_nothing_is_said_before_a_job_with_the_most_work_has_ended(clock):
    progress = Progress({"table": 3, "train": 2, "evaluate": 2, "unlearn": 1}, clock)
    progress.work = {"train": 100.0, "evaluate": 5.0, "unlearn": 50.0, "other": 200.0}
    assert progress.left == ""
    after(progress, 0.0, 9, "unlearn")  # KNN
    assert after(progress, 1, 0, "table") == " 25 %                            1.0 s  do table"
    after(progress, 20, 1, "train")
    assert progress.seconds_left == pytest.approx(2 * 1 + 20 + 2 * 1)  # tables, the other training, and by their work


def test_the_first_jobs_of_a_rule_do_not_speak_for_all_of_it(clock):
    """KNN's end first, in no time; the other methods take as long as their work says."""
    progress = Progress({"train": 1, "unlearn": 10}, clock)
    progress.work = {"train": 100.0, "unlearn": 50.0}
    after(progress, 100, 0, "train")
    after(progress, 0.0, 1, "unlearn")
    assert progress.seconds_left == pytest.approx(9 * 0.9 * 50)
    for number in range(2, 10):
        after(progress, 60, number, "unlearn")
    assert progress.seconds_left == pytest.approx(0.9 * 480 / 9 + 0.1 * 50)


def test_a_rule_of_which_nothing_is_known_is_like_the_others_whose_work_is_not_known(clock):
    progress = Progress({"table": 1, "figure": 1, "train": 1, "page": 2}, clock)
    progress.work = {"train": 100.0}
    after(progress, 10, 0, "train")
    assert progress.seconds_left == 0
    after(progress, 4, 1, "table")
    after(progress, 2, 2, "figure")
    assert progress.seconds_left == pytest.approx(2 * 3)


def test_jobs_that_took_no_time_say_nothing_of_the_rest(clock):
    progress = Progress({"table": 2}, clock)
    after(progress, 0, 0, "table")
    assert progress.seconds_left is None and progress.left == ""


def test_jobs_at_once_share_the_time_that_is_left(clock):
    progress = Progress({"train": 6}, clock)
    for number in range(2):
        progress.begin(number, "train", "train")
    clock.now = 10.0
    for number in range(2):
        progress.end(number)
    assert progress.seconds_left == pytest.approx(20)


def test_what_runs_counts_as_far_as_it_is(clock):
    progress = Progress({"train": 3}, clock)
    after(progress, 10, 0, "train")
    progress.begin(1, "train", "train it")
    clock.now = 14.0
    assert progress.seconds_left == pytest.approx(16)
    assert progress.status == "33 % of 3 jobs, about 16 s left: train it"
    clock.now = 100.0  # much longer than expected: the other one is still left
    assert progress.seconds_left == pytest.approx(10)


def test_a_job_that_failed_and_begins_again_is_counted_once(clock):
    progress = Progress({"train": 2}, clock)
    progress.begin(0, "train", "train")
    progress.fail(0)
    progress.fail(0)
    assert progress.percent == "0 %"
    after(progress, 5, 0, "train")
    assert progress.percent == "50 %"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"), (100, "2 min"), (5_939, "99 min"),
        (5_990, "1 h 40 min"), (7_510, "2 h 5 min"), (360_000, "100 h 0 min"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_as_exact_as_anybody_needs_it(seconds, expected):
    assert duration(seconds) == expected
