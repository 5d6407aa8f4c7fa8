"""Profiles for clusters: how many submissions they make, and what they hand to the cluster's own commands."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import ROOT, Project

DATA = "results/default/data/digits/images.npy"
# Stand-ins for the cluster's own commands: the first job is killed, others run.
KUBECTL = """
import subprocess, sys, yaml
if sys.argv[1] == "create":
    text = sys.stdin.read()
    with open("jobs", "a") as jobs:
        jobs.write(text + "---\\n")
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    killed = open("jobs").read().count("kind: Job") == 1
    failed = killed or subprocess.call(container["command"], cwd=container["workingDir"], stdout=sys.stderr)
    open("condition", "w").write("FailureTarget Failed" if failed else "SuccessCriteriaMet Complete")
    print("job.batch/munkey-1")
else:
    print(open("condition").read())
"""
AWS = """
import subprocess, sys
if sys.argv[2] == "submit-job":
    with open("jobs", "a") as jobs:
        jobs.write(" ".join(sys.argv[1:]) + "\\n")
    command = sys.argv[-1].removeprefix("command=").split(",resourceRequirements")[0].split(",")
    killed = len(open("jobs").readlines()) == 1
    failed = killed or subprocess.call(command, stdout=sys.stderr)
    open("condition", "w").write("FAILED" if failed else "SUCCEEDED")
    print("1234")
else:
    print(open("condition").read())
"""


def test_every_rule_has_a_group_and_rules_on_a_gpu_have_its_partition():
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    rules = {}
    for file in (ROOT / "workflow/rules").glob("*.smk"):
        inherited = re.findall(r"^use rule (\w+) as (\w+) with:", file.read_text(), re.MULTILINE)
        rules |= {name: parent for parent, name in inherited if name not in ("cpu_job", "gpu_job")}
    assert profile["groups"].keys() == rules.keys()
    for name, parent in rules.items():
        if parent == "gpu_job":
            assert profile["set-resources"][name]["slurm_partition"] == "gpu", name
    assert set(profile["set-resources"]) <= set(rules)
    assert set(profile["group-components"]) <= set(profile["groups"].values())


@pytest.mark.parametrize(
    ("overlay", "targets"),
    [
        ((), ()),
        pytest.param(
            ("--configfile", "workflow/presets/paper.yaml"), ("paper",), marks=pytest.mark.soak
        ),
    ],
    ids=str,
)
def test_slurm_gets_ten_times_fewer_submissions_than_jobs(
    fresh: Project, tmp_path, overlay, targets
) -> None:
    project = fresh.copy(tmp_path / "project")
    (project.path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    done = project.run("snakemake", "-n", "--profile", "profiles/slurm", *overlay, "--", *targets)
    planned = done.stdout + done.stderr
    jobs = int(re.findall(r"^total +(\d+)$", planned, re.MULTILINE)[0]) - 1  # without the target
    groups = re.findall(r"Group job (\w+)", planned)
    assert {"inputs", "train", "unlearn", "report"} <= set(groups)
    assert not re.search(r"^\[.*\]\nJob", planned, re.MULTILINE)  # no job outside of a group
    assert jobs >= 10 * len(groups) > 0
    if targets:
        page = " ".join((ROOT / "docs/cluster.md").read_text().split())
        assert f"about {round(jobs, -2):,} jobs" in page
        assert f"into about {round(len(groups), -1)} SLURM jobs" in page


def put_in_place(project: Project, name: str, command: str) -> str:
    """Let this command stand in for the cluster's, and return the PATH that finds it."""
    stand_in = project.path / "bin" / name
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!{sys.executable}\n{command}")
    stand_in.chmod(0o755)
    return f"{stand_in.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def run_with(project: Project, profile: str, name: str, command: str) -> str:
    """Make one file through a profile whose cluster is this command, and return the jobs that the command received."""
    path = put_in_place(project, name, command)
    waits = ("--latency-wait", "5", "--seconds-between-status-checks", "1")
    project.run("snakemake", "--profile", f"profiles/{profile}", *waits, "--", DATA, PATH=path)
    assert (project.path / DATA).exists()
    return (project.path / "jobs").read_text()


@pytest.mark.ci
def test_kubernetes_gets_a_killed_job_again_with_twice_the_time_and_memory(
    fresh: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    *jobs, _ = yaml.safe_load_all(run_with(project, "kubernetes", "kubectl", KUBECTL))
    assert [job["spec"]["backoffLimit"] for job in jobs] == [0, 0]  # the retry is Snakemake's
    for attempt, job in enumerate(jobs, start=1):
        pod = job["spec"]["template"]["spec"]
        assert pod["activeDeadlineSeconds"] == 3600 * attempt
        assert pod["containers"][0]["workingDir"] == str(project.path)
        memory = f"{8000 * attempt}M"
        assert pod["containers"][0]["resources"] == {
            "requests": {"cpu": "1", "memory": memory},
            "limits": {"memory": memory, "nvidia.com/gpu": "0"},
        }


@pytest.mark.ci
def test_aws_batch_gets_a_killed_job_again_with_twice_the_time_and_memory(
    fresh: Project, tmp_path: Path
) -> None:
    jobs = run_with(fresh.copy(tmp_path / "project"), "aws-batch", "aws", AWS).splitlines()
    assert len(jobs) == 2
    for attempt, job in enumerate(jobs, start=1):
        assert f"attemptDurationSeconds={3600 * attempt}" in job
        needs = f"[{{type=VCPU,value=1}},{{type=MEMORY,value={8000 * attempt}}}]"
        assert f"resourceRequirements={needs}" in shlex.split(job)[-1]


@pytest.mark.parametrize(
    ("profile", "name", "command", "gpu"),
    [
        ("kubernetes", "kubectl", KUBECTL, 'nvidia.com/gpu: "1"'),
        ("aws-batch", "aws", AWS, "{type=GPU,value=1}"),
    ],
)
def test_a_cluster_gets_a_request_for_a_gpu(
    profile: str, name: str, command: str, gpu: str, fresh: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    path = put_in_place(project, name, command)
    project.run(f"profiles/{profile}/submit", "2", "16000", "1", "240", "job.sh", PATH=path)
    assert gpu in (project.path / "jobs").read_text()


@pytest.mark.parametrize("profile", ["kubernetes", "aws-batch"])
def test_a_whole_run_can_be_planned_for_a_cluster(profile: str, fresh: Project) -> None:
    planned = fresh.run("snakemake", "-n", "--profile", f"profiles/{profile}")
    assert re.search(r"^total +28$", planned.stdout + planned.stderr, re.MULTILINE)
