"""What a model says, as JSON: the same from the command and over HTTP."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.model.sources import Added, MemoryRow
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.verify import Report

Json = dict[str, Any]


def predicted(prediction: Prediction, *, explain: bool) -> Json:
    """An answer for each picture, in order; with `explain`, how the model answers, and the neighbors that decided."""
    answers: list[Json] = [
        {
            "file": file,
            "class": name,
            "probability": float(probabilities.max()),
            "probabilities": dict(zip(prediction.names, map(float, probabilities), strict=True)),
        }
        for file, name, probabilities in zip(
            prediction.files, prediction.classes, prediction.probabilities, strict=True
        )
    ]
    if explain:
        for answer in answers:
            answer["neighbors"] = []
        for row in prediction.explained():
            neighbor = {
                name: getattr(row, name) for name in ("id", "label", "weight", "cosine", "file")
            }
            answers[row.picture]["neighbors"].append(neighbor)
        return {"predictions": answers, "basis": prediction.basis}
    return {"predictions": answers}


def near(found: NearSamples) -> list[Json]:
    """For each picture, its file and the samples near to it."""
    return [
        {"file": file, "samples": [sample_near(sample) for sample in samples]}
        for file, samples in zip(found.files, found.samples, strict=True)
    ]


def sample_near(sample: NearSample) -> Json:
    """A sample that is near to a picture."""
    return {
        "cosine": sample.cosine,
        "copy": sample.copy,
        "id": sample.id,
        "class": sample.label,
        "unit": sample.unit,
        "file": sample.file,
    }


def forgotten(receipt: Receipt) -> Json:
    """A deletion. first, last: its numbers in the chain, none where nothing was deleted; identical: ids that stay.

    found_nothing: no sample that it names was held when it was asked for the first time.

    identical and emptied are None in a repeated answer: that is not known any more.
    """
    numbers = receipt.sequences
    return {
        "deleted": len(numbers),
        "found_nothing": not numbers,
        "first": numbers[0] if numbers else None,
        "last": numbers[-1] if numbers else None,
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


def added(samples: Added) -> Json:
    """New samples. identical: by new id, the ids of exact copies that were there before."""
    return {
        "ids": samples.ids.tolist(),
        "identical": {str(new): list(old) for new, old in samples.identical.items()},
    }


def samples(rows: Iterable[MemoryRow]) -> list[Json]:
    """Samples of a memory."""
    return [
        {
            "id": id,
            "class": label,
            "file": file,
            "unit": unit,
            "added": added.isoformat(timespec="seconds"),
        }
        for id, label, file, unit, added in rows
    ]


def log(deletions: Iterable[Receipt]) -> list[Json]:
    """All deletions: of what `forgotten` says, what the log keeps."""
    fields = ("first", "last", "when", "request", "deleted", "before", "head")
    return [{field: answer[field] for field in fields} for answer in map(forgotten, deletions)]


def verified(report: Report) -> Json:
    """What a check found."""
    return {"sound": report.sound, "said": str(report)} | asdict(report)
