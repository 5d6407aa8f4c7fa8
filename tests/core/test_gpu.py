"""What only a GPU can run does there what it says: everything that tests/test_gpu_path.py cannot prove."""

import pytest
import torch

from munkey.core import gpu
from munkey.models.networks.vit import attend
from munkey.training.precision import Precision
from tests.conftest import generator, needs_gpu


@needs_gpu
def test_a_card_has_a_name_and_free_memory():
    assert gpu.is_available()
    assert gpu.get_name()
    assert gpu.free_bytes() > 0


@needs_gpu
def test_a_copy_arrives_whole():
    tensor = torch.rand(1000, generator=generator())
    copy = gpu.copy_to_gpu(tensor)
    gpu.wait()
    assert copy.is_cuda
    assert torch.equal(copy.cpu(), tensor)


@needs_gpu
def test_a_copy_of_a_stream_is_complete_when_it_is_used():
    tensors = [torch.rand(1_000_000, generator=generator(seed)) for seed in range(20)]
    stream = gpu.CopyStream()
    sums = []
    for tensor in tensors:
        copy, arrived = stream.start(lambda tensor=tensor: gpu.copy_to_gpu(tensor))
        stream.hand_over([copy], arrived)
        sums.append(copy.double().sum())
        del copy  # its memory must not be used again before it is summed
    for on_gpu, tensor in zip(sums, tensors, strict=True):
        assert on_gpu.item() == pytest.approx(tensor.double().sum().item())


@needs_gpu
def test_attention_agrees_with_what_a_cpu_computes():
    q, k, v = torch.randn(3, 2, 3, 17, 16, generator=generator()).unbind()
    on_gpu = gpu.attention(q.cuda(), k.cuda(), v.cuda()).cpu()
    torch.testing.assert_close(on_gpu, attend(q, k, v), atol=2e-3, rtol=2e-3)


@needs_gpu
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_step_in_every_precision_descends(name):
    weight = torch.nn.Parameter(torch.ones(4, 4, device="cuda"))
    precision = Precision(name, "cuda")
    optimizer = torch.optim.AdamW([weight], lr=0.1, fused=True)
    for _ in range(3):
        with precision.forward():
            product = weight @ weight
        assert product.dtype == getattr(torch, name)
        precision.descend(product.float().square().sum(), optimizer)
    assert weight.dtype == torch.float32
    assert (weight < 1).all()


def test_autocast_changes_nothing_on_a_device_without_it():
    with gpu.autocast(torch.bfloat16, "meta"):
        on_meta = torch.ones(2, 2, device="meta")
        assert (on_meta @ on_meta).dtype == torch.float32
    with gpu.autocast(torch.bfloat16, "cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
