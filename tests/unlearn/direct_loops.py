"""What methods are compared with: plain descent on copies of the original, all of a set in one batch."""

import torch

from munkey.models.family import System
from munkey.unlearn.contract import Tuning
from tests.unlearn.world import WHOLE, original, tuning, weights, world

RATE = 0.2


def fresh_copy(name: str = "cf") -> torch.nn.Module:
    """The network that a method starts from."""
    return original(name).copy_model()


def one_batch(epochs: int) -> Tuning:
    """All of a set in one batch, uncropped, at the rate of `descend`."""
    return tuning(epochs=epochs, batch_size=100, augment=WHOLE, lr=RATE)


def pixels(part: str) -> torch.Tensor:
    """All images of a part, in [0, 1]."""
    samples = world().parts[part]
    return samples.batch(torch.arange(len(samples)), "cpu").images


def descend(model: torch.nn.Module, loss: torch.Tensor, rate: float = RATE) -> None:
    """One step of plain gradient descent."""
    parameters = tuple(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= rate * gradient


def assert_result(result: System, model: torch.nn.Module) -> None:
    """The method's network has the weights of `model`, and they are not those that it started from."""
    expected = model.state_dict()
    start = fresh_copy().state_dict()
    for name, value in weights(result).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-4)
    distances = [(expected[name] - start[name]).abs().max() for name in expected]
    assert max(distances) > 1e-3
