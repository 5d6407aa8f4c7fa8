"""Answers of a model as JSON: the same from the command and over HTTP."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.model.sources import AddedSamples, MemoryRow
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.verify import Report

Json = dict[str, Any]


def prediction(answers: Prediction, *, explain: bool) -> Json:
    """An answer for each picture, in order.

    With `explain`, also how the model answers, and the neighbors that decided.
    """
    predictions: list[Json] = []
    for file, name, probabilities in zip(
        answers.files, answers.classes, answers.probabilities, strict=True
    ):
        predictions.append(
            {
                "file": file,
                "class": name,
                "probability": float(probabilities.max()),
                "probabilities": dict(zip(answers.names, map(float, probabilities), strict=True)),
            }
        )
    if not explain:
        return {"predictions": predictions}
    for entry in predictions:
        entry["neighbors"] = []
    for row in answers.explanation():
        neighbor = {
            "id": row.id,
            "class": row.label,
            "weight": row.weight,
            "cosine": row.cosine,
            "file": row.file,
        }
        predictions[row.picture]["neighbors"].append(neighbor)
    return {"predictions": predictions, "basis": answers.basis}


def near_samples(near: NearSamples) -> list[Json]:
    """The file of each picture, and the samples near it."""
    return [
        {"file": file, "samples": [near_sample(sample) for sample in samples]}
        for file, samples in zip(near.files, near.samples, strict=True)
    ]


def near_sample(sample: NearSample) -> Json:
    """A sample near a picture."""
    return {
        "cosine": sample.cosine,
        "copy": sample.copy,
        "id": sample.id,
        "class": sample.label,
        "unit": sample.unit,
        "file": sample.file,
    }


def deletion(receipt: Receipt) -> Json:
    """A deletion.

    first, last: its numbers in the chain, None if nothing was deleted. identical: ids of exact
    copies that stay. found_nothing: whether the memory held none of its samples when the request
    came for the first time. A repeated answer has None for identical and emptied: the log keeps
    neither.
    """
    sequences = receipt.sequences
    return {
        "deleted": len(sequences),
        "found_nothing": not sequences,
        "first": sequences[0] if sequences else None,
        "last": sequences[-1] if sequences else None,
        "when": receipt.when.isoformat(timespec="microseconds"),
        "memory": receipt.store,
        "before": receipt.before,
        "head": receipt.after,
        "request": receipt.request,
        "repeated": receipt.repeated,
        "identical": None if receipt.identical is None else list(receipt.identical),
        "emptied": None if receipt.emptied is None else list(receipt.emptied),
        "purged": False,
    }


def addition(samples: AddedSamples) -> Json:
    """New samples. identical: by new id, the ids of exact copies that were there before."""
    return {
        "ids": samples.ids.tolist(),
        "identical": {
            str(new_id): list(earlier_ids) for new_id, earlier_ids in samples.identical.items()
        },
    }


def samples(rows: Iterable[MemoryRow]) -> list[Json]:
    """Samples of a memory."""
    return [
        {
            "id": row.id,
            "class": row.label,
            "file": row.file,
            "unit": row.unit,
            "added": row.added.isoformat(timespec="seconds"),
        }
        for row in rows
    ]


def log(deletions: Iterable[Receipt]) -> list[Json]:
    """All deletions, with the entries of `deletion` that the log keeps."""
    fields = ("first", "last", "when", "request", "deleted", "before", "head")
    return [{field: answer[field] for field in fields} for answer in map(deletion, deletions)]


def verification(report: Report) -> Json:
    """The result of a check."""
    return {"sound": report.sound, "said": str(report)} | asdict(report)
