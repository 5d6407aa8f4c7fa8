"""A dry run says for each job, in words, which knob or which code changed."""

from munkey.experiment.run import code_digest
from munkey.experiment.run.reasons import PlannedJob, explain_jobs


def planned(
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
        rule, what, method, changed or {}, [repr(each) for each in before], files, other, made_at
    )


def said(*jobs):
    return [line.strip() for line in explain_jobs(jobs)]


def test_a_knob_is_named_as_in_the_parameters_with_both_values():
    settings = {"train": {"lr": 0.002, "epochs": 8}, "munkey": {"p_image": 0.3}}
    before = {"train": {"lr": 0.001, "epochs": 8}, "munkey": {"p_image": 0.3}}
    assert said(planned(changed={"settings": settings}, before=[before])) == [
        "train vit: train.lr 0.001 → 0.002"
    ]
    unlearned = planned(
        "unlearn", {"settings": {"method": {"lam": 1}}}, [{"method": {"lam": 2}}], method="ssd"
    )
    assert said(unlearned) == ["unlearn: unlearn.ssd.lam 2 → 1"]
    deeper = planned("find neighbors", {"depth": 34}, ["another text", 33])
    assert said(deeper) == ["find neighbors: keys.depth 33 → 34"]


def test_what_is_a_list_or_gone_is_named_without_values():
    assert said(planned("rank", {"rows": [{"name": "cf"}]}, [[{"name": "ssd"}]])) == [
        "rank: rows changed"
    ]
    assert said(planned("rank", {}, ["gone"])) == ["rank: fewer settings"]


def test_code_is_named_by_function_and_by_the_files_that_are_newer_than_the_results():
    digest = code_digest.digest("munkey.evaluation.metrics")
    job = planned(
        "measure", {"code": f"metrics.metrics {digest}"}, ["metrics.metrics 0123456789abcdef"]
    )
    (line,) = said(job)
    assert line.startswith("measure: the code of metrics.metrics: ") and line.endswith(" more")
    later = 1e12
    (line,) = said(planned("measure", job.changed, ["metrics.metrics 0123"], made_at=later))
    assert (
        line
        == "measure: the code of metrics.metrics: a different version from the one behind the results"
    )


def test_jobs_that_are_new_or_follow_are_counted_by_rule():
    jobs = [
        planned(made_at=0.0),
        planned(made_at=0.0, files=["keys.npz"]),
        planned(rule="evaluate"),
    ]
    assert said(*jobs) == ["no results yet: train (2)", "inputs are computed again: evaluate (1)"]


def test_of_many_changes_the_first_are_listed():
    now = {"settings": {f"knob{number}": 1 for number in range(9)}}
    (line,) = said(planned(changed=now, before=[{f"knob{number}": 0 for number in range(9)}]))
    assert line.endswith("knob3 0 → 1; 5 more")
    assert said(planned(files=["a.csv"], other=["forced"])) == ["train vit: a.csv changed; forced"]
