"""A model whose writer is killed anywhere: before or after, for a reader too, samples and source files alike."""

import json
import subprocess
import sys

from tests.conftest import ROOT
from tests.deploy.small import model_in


def test_a_kill_leaves_before_or_after_and_never_between(folder):
    command = [sys.executable, "-m", "tests.deploy.killing", "60", "0", str(model_in(folder))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    hits = json.loads(done.stdout)
    assert all(hits.values()), hits
