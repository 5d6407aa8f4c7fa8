"""Precision and compilation change how fast a training is, and hardly what it learns; nothing waits inside an epoch."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from munkey.data.resample import crop_resize, draw_boxes
from munkey.training.precision import Precision
from tests.conftest import ROOT, generator
from tests.plugins import written
from tests.training.inputs import trained

FAMILIES = pytest.mark.parametrize("family", ["vit", "munkey"])


def weights(system):
    return torch.cat([tensor.flatten() for tensor in system.model.state_dict().values()])


@FAMILIES
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_training_in_lower_precision_learns_the_same_with_weights_of_float32(family, precision):
    whole, history = trained(family)
    lower, later = trained(family, precision=precision)
    assert weights(lower).dtype == torch.float32
    assert not torch.equal(weights(lower), weights(whole))
    assert later[0]["loss"] == pytest.approx(history[0]["loss"], rel=0.05)
    assert later[-1]["loss"] < 0.9 * later[0]["loss"]


def test_auto_is_float32_on_a_cpu_and_any_other_name_means_itself():
    assert Precision("auto", "cpu").name == "float32"
    assert Precision("float16", "cpu").name == "float16"
    with_auto = trained("vit", precision="auto").system
    assert torch.equal(weights(with_auto), weights(trained("vit").system))


def test_auto_on_a_gpu_is_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.amp, "GradScaler", lambda *_, **__: None)
    assert Precision("auto", "cuda").name == "bfloat16"


@pytest.mark.parametrize(("name", "scale"), [("float32", 1), ("bfloat16", 1), ("float16", 2.0**16)])
def test_the_loss_is_scaled_in_float16_alone(name, scale):
    assert Precision(name, "cpu").scaler.scale(torch.ones(1)).item() == scale


@pytest.mark.parametrize(
    ("family", "backend"),
    [
        ("vit", "aot_eager"),
        ("munkey", "aot_eager"),
        pytest.param("munkey", "inductor", marks=pytest.mark.soak),
    ],
)
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_a_compiled_training_learns_what_an_uncompiled_one_learns(family, backend, monkeypatch):
    """Both are traced, with their gradients; that torch's code for a CPU agrees too takes half a minute to see."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    # batches of one size: another is compiled anew
    small = {"depth": 1, "epochs": 2, "batch_size": 20}
    whole, history = trained(family, **small)
    faster, later = trained(family, **small, compile=True)
    assert type(faster.model) is type(whole.model)
    # the first steps of Adam amplify what is near 0
    assert (weights(faster) - weights(whole)).abs().mean() < 1e-4
    assert later[-1]["loss"] == pytest.approx(history[-1]["loss"], rel=1e-2)


LINKER = """#!/bin/sh
for word; do
    [ "$before" = -o ] && made=$word
    before=$word
done
case "$*" in *main.cpp*) case $made in *.so) : > "$made"; kill -9 $PPID ;; esac ;; esac
exec {} "$@"
"""


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_a_training_that_is_killed_while_it_links_spoils_no_later_one(tmp_path):
    linker = (
        written(tmp_path, {"bin/g++": LINKER.format(shutil.which("g++")), "tmp/README": ""})
        / "bin/g++"
    )
    linker.chmod(0o755)
    script = "from tests.training.inputs import trained; trained('vit', depth=1, epochs=1, batch_size=20, compile=True)"

    def train(path):
        environment = os.environ | {
            "TMPDIR": str(tmp_path / "tmp"),
            "PATH": f"{path}:{os.environ['PATH']}",
        }
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    assert train(linker.parent).returncode == -signal.SIGKILL
    assert 0 in [path.stat().st_size for path in (tmp_path / "tmp").rglob("*.so")]
    done = train("/usr/bin")
    assert done.returncode == 0, done.stderr


@FAMILIES
def test_every_step_runs_the_compiled_model_only_if_compile_is_set(family, monkeypatch):
    calls = []
    folders = set()

    def compile_in_name(model):
        def forward(*inputs):
            calls.append(model)
            folders.add(os.environ["TORCHINDUCTOR_CACHE_DIR"])
            return model(*inputs)

        return forward

    monkeypatch.setattr(torch, "compile", compile_in_name)
    trained(family, epochs=2)
    assert not calls
    system, _ = trained(family, epochs=2, compile=True)
    assert calls == [system.model] * 2 * 4  # 60 samples, 16 at once
    trained(family, epochs=1, compile=True)
    # Each training has a folder of its own, and removes it.
    assert len(folders) == 2
    for folder in folders:
        assert not Path(folder).exists()


def test_pixels_are_cropped_in_float32_whatever_the_precision():
    images = torch.rand(6, 3, 16, 16, generator=generator())
    boxes = draw_boxes(6, 16, 16, [0.1, 1.0], [0.75, 4 / 3], generator(1))
    with Precision("bfloat16", "cpu").forward():
        lower = crop_resize(images, boxes, 8)
    assert torch.equal(lower, crop_resize(images, boxes, 8))


class ReadsBack(TorchDispatchMode):
    """Counts what a host would have to wait for a device for."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__ in (
            "_local_scalar_dense",
            "nonzero",
            "masked_select",
            "equal",
        )
        return function(*args, **(kwargs or {}))


@FAMILIES
def test_numbers_are_read_back_once_an_epoch(family):
    trained(family, epochs=1)
    with ReadsBack() as reads:
        trained(family, epochs=1)
        one = reads.count
        trained(family, epochs=4)
    assert reads.count - 2 * one == 3 * 2  # an epoch's mean loss and its number of hits
