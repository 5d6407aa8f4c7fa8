"""A job in the terminal with a debugger, and a new job: one function and one rule."""

import os
import pty
import re
import select
import subprocess
import time

import pytest

from tests.integration.conftest import Project

FORGET = "results/default/forget/digits/seed0/rate0.1.csv"
IMPORTS = "from munkey.core.files import read_csv, write_text\n"
FUNCTION = '''

def counts(samples: Path, counts: Path, dataset: str, unit: str) -> None:
    """Write how many samples there are."""
    write_text(counts, f"{dataset}: {len(read_csv(samples))} {unit}")
'''
RULE = """

use rule job as counts with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
    output:
        counts="results/default/counts/{dataset}.txt",
    log:
        LAYOUT.log("counts/{dataset}"),
    params:
        unit="samples",
        code=code("data.counts"),
    message:
        "count the samples of {wildcards.dataset}"
"""


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, project: Project, *command: str) -> None:
        self.master, other = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=project.path,
            env=project.environment(),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self.text = ""

    def read_until(self, text: str, seconds: float = 120) -> str:
        """What it has printed since the last call, up to a text. Fails where that does not come."""
        end = time.monotonic() + seconds
        while text not in self.text:
            if not select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
                pytest.fail(f"no {text!r} after {seconds} s in:\n{self.text}")
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except OSError:  # it has ended
                pytest.fail(f"it ended without {text!r}:\n{self.text}")
        before, _, self.text = self.text.partition(text)
        return before

    def answer(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def end(self) -> int:
        """Read to its end. Returns its status."""
        while True:
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except OSError:
                return self.process.wait(60)


def insert(project: Project, line: str) -> None:
    """Put a line before the drawing of a forget set."""
    path = project.path / "src/munkey/jobs/forget.py"
    before, draw, after = path.read_text().partition("    forget_ids = forget_draws.draw(")
    path.write_text(f"{before}    {line}\n{draw}{after}")


def test_a_breakpoint_prompts_in_the_terminal_of_munkey_job_and_nowhere_else(
    project: Project,
) -> None:
    insert(project, "breakpoint()")
    refused = project.make(FORGET, check=False)
    assert refused.returncode != 0
    assert not (project.path / FORGET).exists()
    assert "RuntimeError: a breakpoint, but" in refused.stderr
    assert f"`munkey job {FORGET}`" in refused.stderr
    terminal = Terminal(project, "munkey", "job", FORGET)
    assert "forget_ids = forget_draws.draw(" in terminal.read_until("(Pdb) ")
    terminal.answer("p len(members), sampling")
    assert "(300, 'stratified')" in terminal.read_until("(Pdb) ")
    terminal.answer("c")
    assert terminal.end() == 0
    assert "30 of 300 training samples to forget, stratified" in terminal.text
    assert (project.path / FORGET).exists()


@pytest.mark.ci
def test_a_debugger_starts_where_the_job_of_munkey_job_fails(project: Project) -> None:
    insert(project, "raise ZeroDivisionError(rate)")
    terminal = Terminal(project, "munkey", "job", FORGET, "--pdb")
    printed = terminal.read_until("(Pdb) ")
    assert "ZeroDivisionError: 0.1" in printed
    terminal.answer("p dataset")
    assert "'digits'" in terminal.read_until("(Pdb) ")
    terminal.answer("q")
    assert terminal.end() != 0
    without = project.run("munkey", "job", FORGET, check=False)
    assert without.returncode != 0
    assert "ZeroDivisionError: 0.1" in without.stdout + without.stderr


def test_a_rule_is_added_by_one_function_and_one_rule(project: Project) -> None:
    module = project.path / "src/munkey/jobs/data.py"
    path_import = "from pathlib import Path\n"
    jobs = module.read_text().replace(path_import, path_import + IMPORTS) + FUNCTION
    module.write_text(jobs)
    with (project.path / "workflow/rules/data.smk").open("a") as rules:
        rules.write(RULE)
    target = "results/default/counts/digits.txt"
    project.make(target)
    assert re.fullmatch(r"digits: \d+ samples", (project.path / target).read_text())
    module.write_text(jobs.replace("unit: str)", "unit: str, size: int)"))
    refused = project.make(target, check=False)
    assert refused.returncode != 0
    assert "rule counts: munkey.jobs.data.counts needs size" in refused.stderr
