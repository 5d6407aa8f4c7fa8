"""A dry run says for each job, in words, which knob or which code changed."""

import pytest

from munkey.experiment.run import code_digest
from munkey.experiment.run.reasons import PlannedJob, explain_jobs


def planned_job(
    what="train vit",
    changed=None,
    before=(),
    files=(),
    other=(),
    made_at=1.0,
    method="",
    rule="train",
):
    return PlannedJob(
        rule, what, method, changed or {}, [repr(value) for value in before], files, other, made_at
    )


def explain(*jobs):
    return [line.strip() for line in explain_jobs(jobs)]


def test_a_knob_is_named_as_in_the_parameters_with_both_values():
    settings = {"train": {"lr": 0.002, "epochs": 8}, "munkey": {"p_image": 0.3}}
    before = {"train": {"lr": 0.001, "epochs": 8}, "munkey": {"p_image": 0.3}}
    assert explain(planned_job(changed={"settings": settings}, before=[before])) == [
        "train vit: train.lr 0.001 → 0.002"
    ]
    unlearning = planned_job(
        "unlearn", {"settings": {"method": {"lam": 1}}}, [{"method": {"lam": 2}}], method="ssd"
    )
    assert explain(unlearning) == ["unlearn: unlearn.ssd.lam 2 → 1"]
    deeper = planned_job("find neighbors", {"depth": 34}, ["another text", 33])
    assert explain(deeper) == ["find neighbors: keys.depth 33 → 34"]


def test_a_list_or_a_removed_setting_is_named_without_values():
    assert explain(planned_job("rank", {"rows": [{"name": "cf"}]}, [[{"name": "ssd"}]])) == [
        "rank: rows changed"
    ]
    assert explain(planned_job("rank", {}, ["gone"])) == ["rank: fewer settings"]


def test_changed_code_is_named_by_function_and_by_files_newer_than_the_results():
    digest = code_digest.digest("munkey.evaluation.metrics")
    job = planned_job(
        "measure", {"code": f"metrics.metrics {digest}"}, ["metrics.metrics 0123456789abcdef"]
    )
    (line,) = explain(job)
    assert line.startswith("measure: the code of metrics.metrics: ")
    assert line.endswith(" more")
    later = 1e12
    (line,) = explain(planned_job("measure", job.changed, ["metrics.metrics 0123"], made_at=later))
    assert line.startswith("measure: the code of metrics.metrics: ")


def test_jobs_that_are_new_or_follow_are_counted_by_rule():
    jobs = [
        planned_job(made_at=0.0),
        planned_job(made_at=0.0, files=["keys.npz"]),
        planned_job(rule="evaluate"),
    ]
    assert explain(*jobs) == [
        "no results yet: train (2)",
        "inputs are computed again: evaluate (1)",
    ]


@pytest.mark.parametrize(
    ("changes", "end"), [(9, "knob3 0 → 1; 5 more"), (5, "knob3 0 → 1; 1 more"), (4, "knob3 0 → 1")]
)
def test_the_first_four_changes_are_listed_and_the_others_counted(changes, end):
    knobs = [f"knob{number}" for number in range(changes)]
    settings = {"settings": dict.fromkeys(knobs, 1)}
    (line,) = explain(planned_job(changed=settings, before=[dict.fromkeys(knobs, 0)]))
    assert line.endswith(end)


def test_a_changed_file_and_another_reason_are_both_listed():
    (line,) = explain(planned_job(files=["a.csv"], other=["forced"]))
    assert line == "train vit: a.csv changed; forced"
