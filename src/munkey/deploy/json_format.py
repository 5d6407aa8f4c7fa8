"""Results of a model as JSON, for the command line and for HTTP."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from munkey.deploy.deletions import Deletion
from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.model.sources import AddedSamples, MemoryRow
from munkey.memory.chain import Receipt
from munkey.memory.verify import MemoryReport

Json = dict[str, Any]


def format_prediction(prediction: Prediction, *, explain: bool) -> Json:
    """Format the predicted class and the probabilities of each picture, in order.

    explain: also list the neighbors of each picture, and describe how the model predicts.
    """
    picture_results: list[Json] = []
    for file, class_name, probabilities in zip(
        prediction.files, prediction.classes, prediction.probabilities, strict=True
    ):
        result: Json = {
            "file": file,
            "class": class_name,
            "probability": float(probabilities.max()),
            "probabilities": dict(zip(prediction.names, probabilities.tolist(), strict=True)),
        }
        if explain:
            result["neighbors"] = []
        picture_results.append(result)
    if not explain:
        return {"predictions": picture_results}
    for row in prediction.explanation():
        neighbor = {
            "id": row.id,
            "class": row.label,
            "weight": row.weight,
            "cosine": row.cosine,
            "file": row.file,
        }
        picture_results[row.picture]["neighbors"].append(neighbor)
    return {"predictions": picture_results, "basis": prediction.basis}


def format_near_samples(near_samples: NearSamples) -> list[Json]:
    """Format each picture's file and the samples near it."""
    pictures = []
    for file, samples in zip(near_samples.files, near_samples.samples, strict=True):
        pictures.append({"file": file, "samples": [format_near_sample(each) for each in samples]})
    return pictures


def format_near_sample(sample: NearSample) -> Json:
    """Format a sample near a picture."""
    return {
        "cosine": sample.cosine,
        "copy": sample.copy,
        "id": sample.id,
        "class": sample.label,
        "unit": sample.unit,
        "file": sample.file,
    }


def format_deletion(deletion: Deletion) -> Json:
    """Format what a request deleted, or would delete.

    A deletion has `deleted` and its place in the chain, a dry run `would_delete`, and the dry run of
    a repeated request both. `identical` and `emptied` are None for a repeated request, because the
    log does not store them.
    """
    result: Json = {"request": deletion.request, "found_nothing": deletion.found_nothing}
    if deletion.dry_run:
        result["would_delete"] = deletion.tolist()
    if not deletion.dry_run or deletion.repeated:
        if deletion.receipt:
            result |= format_receipt(deletion.receipt) | {"memory": deletion.receipt.store}
        else:
            result |= dict.fromkeys(("first", "last", "before", "head", "memory"))
            result["when"] = deletion.when and _format_time(deletion.when)
            result["deleted"] = deletion.deleted
        result |= {
            "repeated": deletion.repeated,
            "emptied": None if deletion.repeated else list(deletion.emptied),
            "purged": deletion.purged,
        }
    if deletion.unpurged:
        result["unpurged"] = deletion.unpurged
    return result | {
        "classes": dict(deletion.classes),
        "identical": None if deletion.repeated else list(deletion.identical),
        "copies": list(deletion.copies),
        "left": deletion.left,
        "patterns": list(deletion.patterns),
        "missing": list(deletion.missing),
    }


def format_addition(samples: AddedSamples) -> Json:
    """Format the ids of new samples, and the ids of earlier exact copies of each, by new id."""
    identical = {}
    for new_id, earlier_ids in samples.identical.items():
        identical[str(new_id)] = list(earlier_ids)  # keys of JSON objects are strings
    return {"ids": samples.ids.tolist(), "identical": identical}


def format_samples(rows: Iterable[MemoryRow]) -> list[Json]:
    """Format samples of a memory."""
    samples = []
    for row in rows:
        sample = {
            "id": row.id,
            "class": row.label,
            "file": row.file,
            "unit": row.unit,
            "added": row.added.isoformat(timespec="seconds"),
        }
        samples.append(sample)
    return samples


def format_receipt(receipt: Receipt) -> Json:
    """Format what the log stores of a deletion.

    `first` and `last` are the sequence numbers of its first and last row in the chain, or None if
    nothing was deleted.
    """
    sequences = receipt.sequences
    return {
        "first": sequences[0] if sequences else None,
        "last": sequences[-1] if sequences else None,
        "when": _format_time(receipt.when),
        "request": receipt.request,
        "deleted": len(sequences),
        "before": receipt.before,
        "head": receipt.after,
    }


def _format_time(when: datetime) -> str:
    return when.isoformat(timespec="microseconds")


def format_log(deletions: Iterable[Receipt]) -> list[Json]:
    """Format deletions, each with only the fields that the log stores."""
    return [format_receipt(receipt) for receipt in deletions]


def format_report(report: MemoryReport) -> Json:
    """Format the result of a verification; `said` is the report as a sentence."""
    return {"sound": report.sound, "said": str(report)} | asdict(report)
