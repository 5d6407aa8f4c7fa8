"""Models that exist only as margins, of which it is known what is left of what they deleted."""

import numpy as np

from munkey.audits.evidence import Halves, Pairs, draw_halves

POOL = 120
TEST = 160


def halves(
    pairs: int, generator: np.random.Generator, pool: int = POOL, test: int = TEST
) -> Halves:
    """A pool, then test samples, then 5 samples that are neither."""
    number = np.arange(pool + test + 5)
    return draw_halves(number < pool, (number >= pool) & (number < pool + test), pairs, generator)


def population(
    pairs: int,
    remaining: float,
    generator: np.random.Generator,
    effect: float = 1.0,
    spread: float = 0.1,
) -> Pairs:
    """Margins of a method that leaves the share `remaining` of what training added, and of doing nothing.

    Difficulty N(0, 2) of a sample, noise N(0, 1) of a model's training and N(0, 0.3) of its unlearning; a model's gain
    from training on a sample is N(effect, spread), one draw for each model.
    """
    swapped_halves = halves(pairs, generator)
    size = swapped_halves.deleted.shape
    trained = 2 * generator.normal(size=size[1]) + generator.normal(size=size)
    gain = generator.normal(effect, spread, (size[0], 1)) * swapped_halves.deleted
    unlearned = trained + remaining * gain + 0.3 * generator.normal(size=size)
    return Pairs(unlearned, swapped_halves, Pairs(trained + gain, swapped_halves))
