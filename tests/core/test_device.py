"""A job computes on the device that it was planned for, or says why it cannot."""

import os
import subprocess
import sys
import time

import pytest
import torch

from munkey.core.device import Stopwatch, has_gpu, select_device, to_device
from tests.conftest import needs_gpu


def test_a_job_without_a_gpu_computes_on_the_cpu():
    assert select_device(0) == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_planned_gpu_that_is_missing_is_an_error():
    with pytest.raises(RuntimeError, match="device: cpu"):
        select_device(1)


def test_a_job_on_a_gpu_computes_convolutions_in_float32(monkeypatch):
    monkeypatch.setattr("munkey.core.gpu_slots.take_slot", lambda: None)
    monkeypatch.setattr("munkey.core.gpu.is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert select_device(1) == "cuda"
    assert not torch.backends.cudnn.allow_tf32


@needs_gpu
def test_a_job_with_a_gpu_computes_on_it():
    assert select_device(1) == "cuda"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_a_hidden_gpu_is_not_visible(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not has_gpu()


def test_looking_for_a_gpu_does_not_import_torch():
    code = "import sys; from munkey.core.device import has_gpu; has_gpu(); print('torch' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


@needs_gpu
def test_a_tensor_is_copied_to_the_gpu():
    tensor = to_device(torch.arange(3), "cuda")
    assert tensor.is_cuda
    assert tensor.tolist() == [0, 1, 2]


def test_a_stopwatch_measures_its_block():
    with Stopwatch("cpu") as watch:
        assert watch.seconds == 0
        time.sleep(0.01)
    assert 0.01 <= watch.seconds < 10
