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
KUBECTL = """
import subprocess, sys, yaml
if sys.argv[1] == "create":
    text = sys.stdin.read()
    open("job", "w").write(text)
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    failed = subprocess.call(container["command"], cwd=container["workingDir"], stdout=sys.stderr)
    open("condition", "w").write("Failed" if failed else "Complete")
    print("job.batch/munkey-1")
else:
    print(open("condition").read())
"""
AWS = """
import subprocess, sys
if sys.argv[2] == "submit-job":
    open("job", "w").write(" ".join(sys.argv[1:]))
    command = sys.argv[-1].removeprefix("command=").split(",resourceRequirements")[0].split(",")
    failed = subprocess.call(command, stdout=sys.stderr)
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


def run_with(project: Project, profile: str, name: str, command: str) -> str:
    """Make one file through a profile whose cluster is this command, and return the job that the command received."""
    stand_in = project.path / "bin" / name
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!{sys.executable}\n{command}")
    stand_in.chmod(0o755)
    path = f"{stand_in.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    waits = ("--latency-wait", "5", "--seconds-between-status-checks", "1")
    project.run("snakemake", "--profile", f"profiles/{profile}", *waits, "--", DATA, PATH=path)
    assert (project.path / DATA).exists()
    return (project.path / "job").read_text()


@pytest.mark.ci
def test_kubernetes_gets_a_job_with_the_resources_of_its_rule(
    fresh: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    spec = yaml.safe_load(run_with(project, "kubernetes", "kubectl", KUBECTL))["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert spec["activeDeadlineSeconds"] == 3600
    assert container["workingDir"] == str(project.path)
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "8000M"},
        "limits": {"memory": "8000M", "nvidia.com/gpu": "0"},
    }


@pytest.mark.ci
def test_aws_batch_gets_a_job_with_the_resources_of_its_rule(
    fresh: Project, tmp_path: Path
) -> None:
    submission = run_with(fresh.copy(tmp_path / "project"), "aws-batch", "aws", AWS)
    assert "attemptDurationSeconds=3600" in submission
    resources = "resourceRequirements=[{type=VCPU,value=1},{type=MEMORY,value=8000}]"
    assert resources in shlex.split(submission)[-1]


@pytest.mark.parametrize("profile", ["kubernetes", "aws-batch"])
def test_a_whole_run_can_be_planned_for_a_cluster(profile: str, fresh: Project) -> None:
    planned = fresh.run("snakemake", "-n", "--profile", f"profiles/{profile}")
    assert re.search(r"^total +28$", planned.stdout + planned.stderr, re.MULTILINE)
