"""A training killed at any moment goes on, and ends with the bytes of one that was never disturbed."""

import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from munkey import system
from munkey.train import train
from tests.unlearn_setup import ARCHITECTURE, DATA, PROJECT, SETTINGS, world

JOB = """
import sys
from pathlib import Path
import tests.conftest
from munkey import system
from tests.test_resume import trained
made, history = trained(sys.argv[1], resume=(Path(sys.argv[2]), float(sys.argv[3])))
system.save(sys.argv[4], made)
assert len(history) == 12
"""


def job(kind, path, every_s, result):
    """The tiny training in a process of its own, as jobs are: other tests leave libraries here in other states."""
    command = [sys.executable, "-c", JOB, kind, path, str(every_s), result]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def trained(kind, resume=None, epochs=12, **changes):
    """The tiny training, of the ViT or of MUNKEY, with a checkpoint after every epoch."""
    from types import SimpleNamespace

    import numpy as np

    samples = world().parts["retain"]
    memory, shape = None, ARCHITECTURE
    if kind == "munkey":
        keys = np.random.default_rng(0).normal(size=(len(samples), 8)).astype(np.float32)
        near = np.array([[i for i in samples.ids if i != own][:4] for own in samples.ids])
        settings = SimpleNamespace(
            architecture="input-level", token_dim=8, token_std=0.02, p_image=0.3, p_token=0.1, p_retrieve=0.2,
            neighbors=[2, 4], temperature=0.07,
        )  # fmt: skip
        memory, shape = (settings, keys, (near, np.full(near.shape, 0.5, np.float32))), ARCHITECTURE | {"token_dim": 8}
    settings = SimpleNamespace(**SETTINGS | {"epochs": epochs} | changes)
    return train(kind, shape, samples, memory, DATA, settings, ("resumed", kind), "cpu", print, resume=resume)


def same_bytes(path, one, other):
    for name, part in (("one", one), ("other", other)):
        system.save(path / name, part)
    return (path / "one").read_bytes() == (path / "other").read_bytes()


class Cut(Exception):
    pass


@pytest.mark.parametrize(("kind", "precision"), [("vit", "float32"), ("munkey", "float32"), ("vit", "float16")])
def test_it_goes_on_after_every_epoch_and_ends_the_same(kind, precision, tmp_path, monkeypatch):
    whole, history = trained(kind, precision=precision)
    for epoch in (1, 5, 11):
        path = tmp_path / f"{epoch}.pt"
        from munkey.resume import Checkpoint

        save = Checkpoint.save

        def cut(self, optimizer, scaler, so_far, save=save, epoch=epoch):
            save(self, optimizer, scaler, so_far)
            if len(so_far) == epoch:
                raise Cut

        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "save", cut)
            with pytest.raises(Cut):
                trained(kind, resume=(path, 0.0), precision=precision)
        again, later = trained(kind, resume=(path, 0.0), precision=precision)
        assert same_bytes(tmp_path, whole, again)
        timeless = [{name: value for name, value in one.items() if name != "seconds"} for one in history]
        assert [{name: value for name, value in one.items() if name != "seconds"} for one in later] == timeless


@pytest.mark.parametrize("kind", ["vit", "munkey"])
def test_killed_at_random_moments_it_ends_with_the_same_bytes(kind, tmp_path):
    path, draw = tmp_path / "progress.pt", random.Random(kind)
    for _ in range(3):
        killed = job(kind, path, 0.0, tmp_path / "never")
        while "epoch" not in (line := killed.stdout.readline()) and line:
            pass
        time.sleep(draw.uniform(0, 0.15))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    again, whole = tmp_path / "again", tmp_path / "whole"
    told, _ = job(kind, path, 0.0, again).communicate()
    job(kind, tmp_path / "unused.pt", 1000.0, whole).communicate()
    assert "goes on after epoch" in told
    assert again.read_bytes() == whole.read_bytes()


def test_checkpoints_are_as_far_apart_as_asked(tmp_path):
    trained("vit", resume=(tmp_path / "p.pt", 1000.0), epochs=3)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "p.pt"
    trained("vit", resume=(path, 0.0), epochs=3)
    with pytest.raises((ValueError, RuntimeError)):
        trained("munkey", resume=(path, 0.0), epochs=3)
    assert torch.load(path, weights_only=True)["history"][0]["epoch"] == 1
