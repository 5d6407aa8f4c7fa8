"""Attacks on the main run's systems, each by itself: a line for each system and attack."""

import numpy as np

from munkey.audits.evidence import Answers
from munkey.audits.registry import AUDITS, Estimate
from munkey.core.files import read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation


def attacked(run: Evaluation) -> list[dict[str, object]]:
    """What each attack finds that needs nothing but logits, percent: AUROC and TPR with their intervals."""
    answers, stage = _answers(run), Stage(run.seed, run.dataset, "attacks", run.rate, run.method)
    lines = []
    for attack in [entry for entry in AUDITS.values() if entry.needs == "logits"]:
        finding = attack.run(answers, (stage / attack.name).numpy_generator())
        line: dict[str, object] = run.key | {"attack": attack.name}
        for number in ("auroc", "tpr_1"):
            estimate = getattr(finding, number, None)  # none where it refused
            if isinstance(estimate, Estimate):
                line |= {number: estimate.value, f"{number}_low": estimate.low, f"{number}_high": estimate.high}
        lines.append(line)
    return lines


def _answers(run: Evaluation) -> Answers:
    kept = read_npz(run.logits, "ids", "labels", "splits", "logits")
    forget = np.isin(kept["ids"], forget_sets.read(run.forget))
    train, test = kept["splits"] == "train", kept["splits"] == "test"
    return Answers(kept["logits"], kept["labels"], train & ~forget, forget, test)
