"""A training killed at any moment resumes, and ends with the bytes of one that was never disturbed."""

import hashlib
import io
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from munkey.models import system
from munkey.training.checkpoint import FOLDER, Checkpoint, CheckpointFile, read_checkpoint
from munkey.training.loop import adamw
from tests.conftest import ROOT, generator
from tests.training.inputs import trained

KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import tests.conftest
import torch._dynamo  # which the first optimizer of every fork would import
from munkey.models import system
from munkey.training.checkpoint import CheckpointFile
from tests.training.inputs import digits, trained
digits()
family, folder = sys.argv[1], Path(sys.argv[2])
file, draw = CheckpointFile(folder / "progress.pt", 0.0), random.Random(family)
for _ in range(3):
    child = os.fork()
    if not child:
        trained(family, file)
        os._exit(0)
    while not file.path.exists():
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
for name, checkpoint in (("again", file), ("whole", None)):
    result = trained(family, checkpoint)
    system.save(folder / name, result.system)
    assert len(result.history) == 12
"""


def same_bytes(path, one, other):
    for name, part in (("one", one), ("other", other)):
        system.save(path / name, part)
    return (path / "one").read_bytes() == (path / "other").read_bytes()


def timeless(history):
    """A history without its seconds, which differ each time."""
    return [epoch | {"seconds": None} for epoch in history]


class Cut(Exception):
    pass


def cut_after(monkeypatch, epoch):
    """From now on a training fails right after it has saved its state after this epoch."""
    save = Checkpoint.save

    def cut(self, optimizer, scaler, history):
        save(self, optimizer, scaler, history)
        if len(history) == epoch:
            raise Cut

    monkeypatch.setattr(Checkpoint, "save", cut)


@pytest.mark.parametrize(
    ("family", "precision"),
    [("munkey", "float32"), ("vit", "float16"), ("munkey", "float16"), ("resnet18", "float32")],
)
def test_a_training_resumes_after_any_epoch_and_ends_the_same(
    family, precision, tmp_path, monkeypatch
):
    """In float16 the scale of the loss grows after every second step, until a step overflows and is left out."""
    monkeypatch.setattr(torch.amp, "GradScaler", partial(torch.amp.GradScaler, growth_interval=2))
    whole, history = trained(family, precision=precision)
    for epoch in (1, 11):
        file = CheckpointFile(tmp_path / f"{epoch}.pt", 0.0)
        with monkeypatch.context() as patched:
            cut_after(patched, epoch)
            with pytest.raises(Cut):
                trained(family, file, precision=precision)
        again, later = trained(family, file, precision=precision)
        assert same_bytes(tmp_path, whole, again)
        assert timeless(later) == timeless(history)


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param("vit", marks=pytest.mark.soak), "munkey"])
def test_a_training_killed_at_random_moments_ends_with_the_same_bytes(family, tmp_path):
    """Each time in a fork of a process that has not computed yet, as jobs are."""
    command = [sys.executable, "-c", KILLED, family, tmp_path]
    messages = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "resuming after epoch" in messages
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_complete_training_saves_no_checkpoint_after_its_last_epoch(tmp_path):
    trained("vit", CheckpointFile(tmp_path / "p.pt", 0.0), epochs=3)
    assert len(read_checkpoint(tmp_path / "p.pt")["history"]) == 2


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    file = CheckpointFile(tmp_path / "p.pt", 0.0)
    trained("vit", file, epochs=3)
    with pytest.raises((ValueError, RuntimeError)):
        trained("munkey", file, epochs=3)
    assert read_checkpoint(file.path)["history"][0]["epoch"] == 1


@pytest.mark.parametrize(
    "damage", [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: c[:-99] + b"!" + c[-98:]]
)
def test_a_damaged_checkpoint_is_set_aside_and_the_training_starts_over(
    damage, tmp_path, monkeypatch, capsys
):
    file = CheckpointFile(tmp_path / "p.pt", 0.0)
    whole, history = trained("vit", epochs=4)
    with monkeypatch.context() as patched:
        cut_after(patched, 2)
        with pytest.raises(Cut):
            trained("vit", file, epochs=4)
    damaged = damage(file.path.read_bytes())
    file.path.write_bytes(damaged)
    again, later = trained("vit", file, epochs=4)
    output = capsys.readouterr().out
    assert f"{file.path} is damaged" in output
    assert "resuming" not in output
    assert (tmp_path / "p.pt.damaged").read_bytes() == damaged
    assert same_bytes(tmp_path, whole, again)
    assert timeless(later) == timeless(history)
    file.remove()
    assert not list(tmp_path.glob("p.*"))


class Planted:
    """Code that somebody puts into a checkpoint, with the right sum."""

    def __reduce__(self):
        return os.mkdir, ("planted",)


def test_code_in_a_checkpoint_is_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = io.BytesIO()
    torch.save({"history": [], "parameters": Planted()}, content)
    Path("p.pt").write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    with pytest.raises(pickle.UnpicklingError):
        read_checkpoint(Path("p.pt"))
    assert not Path("planted").exists()


# One checkpoint


def stepped(value):
    """An optimizer after a step from `value`, with its parameter, its scaler and a generator that has drawn."""
    weight = torch.nn.Parameter(torch.full((2,), value))
    source = generator(int(value))
    optimizer = adamw([weight], [0.9, 0.99], 0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=128 * value)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.rand(3, generator=source)
    return weight, optimizer, scaler, source


def test_a_checkpoint_restores_weights_optimizer_scaler_and_generator(tmp_path):
    file = CheckpointFile(tmp_path / "p.pt", 0.0)
    weight, optimizer, scaler, source = stepped(2.0)
    Checkpoint(file, [source]).save(optimizer, scaler, [{"epoch": 1, "loss": 0.5}])
    other_weight, other_optimizer, other_scaler, other_source = stepped(5.0)
    history = Checkpoint(file, [other_source]).restore(other_optimizer, other_scaler)
    assert history == [{"epoch": 1, "loss": 0.5}]
    assert torch.equal(other_weight, weight)
    assert torch.equal(
        other_optimizer.state[other_weight]["exp_avg"], optimizer.state[weight]["exp_avg"]
    )
    assert other_scaler.get_scale() == scaler.get_scale() == 256
    assert torch.equal(torch.rand(3, generator=other_source), torch.rand(3, generator=source))


@pytest.mark.parametrize(("always_after", "saves"), [(None, [112, 124, 136]), (2, [108, 120, 132])])
def test_the_seconds_between_two_checkpoints_are_counted_from_the_last_one(
    tmp_path, monkeypatch, always_after, saves
):
    """An epoch takes four seconds, and ten shall lie between two checkpoints. Epoch 2 ends at 108."""
    clock = [100]
    monkeypatch.setattr("munkey.training.checkpoint.time.monotonic", lambda: clock[0])
    _, optimizer, scaler, _ = stepped(2.0)
    checkpoint = Checkpoint(CheckpointFile(tmp_path / "p.pt", 10.0), [], always_after)
    saved = []
    for epoch in range(1, 11):
        clock[0] += 4
        checkpoint.save(optimizer, scaler, [{"epoch": float(number)} for number in range(epoch)])
        if checkpoint.file.path.exists():
            saved.append(clock[0])
            checkpoint.file.path.unlink()
    assert saved == saves


# Files of checkpoints


def test_the_file_depends_on_the_identity_and_on_when_the_inputs_changed(tmp_path):
    inputs = [tmp_path / "one", tmp_path / "other"]
    for path in inputs:
        path.write_text("same size")
        os.utime(path, ns=(1, 1))

    def path_of(*identity):
        return CheckpointFile.for_training(identity, map(str, inputs), 60.0).path

    first = path_of("digits", 0)
    assert path_of("digits", 0) == first
    assert first.parent == FOLDER
    assert len({first, path_of("digits", 1), path_of("digits"), path_of("cifar", 0)}) == 4
    os.utime(inputs[1], ns=(1, 2))
    assert path_of("digits", 0) != first


def test_the_checkpoints_of_a_training_and_of_its_parts_are_removed_and_no_others(tmp_path):
    file = CheckpointFile(tmp_path / "abc.pt", 60.0)
    other = CheckpointFile(tmp_path / "abcd.pt", 60.0)
    parts = [file, file.for_part(0, 1), file.for_part(2, 0), other, other.for_part(0, 1)]
    assert [part.path.name for part in parts] == [
        "abc.pt",
        "abc.0.1.pt",
        "abc.2.0.pt",
        "abcd.pt",
        "abcd.0.1.pt",
    ]
    assert {part.every_s for part in parts} == {60.0}
    for part in parts:
        part.path.touch()
    file.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["abcd.0.1.pt", "abcd.pt"]
