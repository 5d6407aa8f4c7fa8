"""KLoM: for each sample, how its margins in models that deleted it diverge from those in models that never saw it."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, roles
from munkey.audits.registry import Finding, Refused, audit
from munkey.audits.swaps import null, p_value

MODELS = 16
BINS = 20
CLIP = 100.0
EMPTY = 1e-5  # stands for the share of a bin that no model of the reference falls into


@dataclass(frozen=True)
class Klom(Finding):
    """Mean over samples, nats. floor: its mean over the swaps of labels within pairs; p: one-sided, from these."""

    value: float
    floor: float
    p: float


@audit(
    "klom",
    title="KLoM",
    needs="pairs",
    definition="Kullback-Leibler divergence of a sample's margins, deleted from never seen, in 20 bins",
    source="Georgiev et al. 2025, arXiv 2410.23232, app. E.1",
)
def klom(pairs: Pairs, generator: np.random.Generator) -> Klom | Refused:
    """Margins are clipped to ±100, as in the paper's code; 16 models give each sample 8 margins of either kind."""
    if len(pairs.margins) < MODELS:
        return Refused(f"KLoM needs {MODELS} models to fill its histograms; there are {len(pairs.margins)}")
    bins = binned(pairs.margins[:, pairs.halves.pool])
    values = null(lambda first: float(divergences(bins, first).mean()), pairs.halves.first, generator)
    return Klom(float(values[0]), float(values[1:].mean()), p_value(values))


def binned(margins: np.ndarray) -> np.ndarray:
    """(S, n): the bin of each margin, out of 20 alike between the sample's smallest and largest."""
    clipped = margins.clip(-CLIP, CLIP)
    low, high = clipped.min(axis=0), clipped.max(axis=0)
    width = np.where(high > low, high - low, 1)
    return np.minimum((BINS * (clipped - low) / width + 1e-9).astype(np.int64), BINS - 1)


def divergences(bins: np.ndarray, first: np.ndarray) -> np.ndarray:
    """(n,): KL(deleted || never seen) of each sample's histograms."""
    from scipy.stats import entropy

    deleted, absent = (np.stack([(part == each).mean(axis=0) for each in range(BINS)]) for part in roles(bins, first))
    return np.asarray(entropy(deleted, np.where(deleted > 0, np.maximum(absent, EMPTY), absent)))
