"""`munkey inspect`, `verify`, `purge`, `compact` and `export`."""

from pathlib import Path

import numpy as np

from munkey.cli.output import NotVerifiedError, say, working
from munkey.core.console import counted
from munkey.deploy import json_answers
from munkey.deploy.model.predictor import Predictor


def inspect(predictor: Predictor, as_json: bool) -> None:
    """What the model is, and what its memory holds."""
    manifest, state, view = predictor.manifest, predictor.store.state, predictor.store.view
    live = int(np.count_nonzero(view.live))
    facts: dict[str, object] = {
        "directory": str(predictor.directory),
        "bytes": sum(file.stat().st_size for file in predictor.directory.rglob("*") if file.is_file()),
        "classes": manifest.classes,
        "encoder": manifest.encoder.settings.encoder,
        "architecture": manifest.architecture,
        "inference": manifest.inference.model_dump(),
        "search": predictor.search.described(),
        "samples": live,
        "deleted, space not freed": len(view.live) - live,
        "deletions": predictor.store.deletions,
        "key width": state.key_width,
        "token width": state.token_width,
        "memory": state.store.hex(),
        "head": predictor.head,
        "provenance": manifest.provenance.model_dump(),
    }
    say("\n".join(f"{name}: {_worded(value)}" for name, value in facts.items()), facts, as_json)


def _worded(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def verify(predictor: Predictor, published: str | None, as_json: bool) -> None:
    with working("verifying"):
        report = predictor.verify(published)
    if not report.sound:
        raise NotVerifiedError(str(report))
    search = predictor.search.described()
    say(f"{report}\nsearch: {search}", json_answers.verified(report, search), as_json)


def purge(predictor: Predictor, as_json: bool) -> None:
    with working("purging"):
        predictor.purge()
    say("purged: no byte of what was forgotten is in any file of the directory", _left(predictor), as_json)


def compact(predictor: Predictor, as_json: bool) -> None:
    with working("compacting"):
        predictor.compact()
    value = _left(predictor)
    say(f"compacted: {counted(value['samples'], 'sample')}, {value['bytes']:,} bytes", value, as_json)


def _left(predictor: Predictor) -> json_answers.Json:
    size = sum(file.stat().st_size for file in predictor.directory.rglob("*") if file.is_file())
    return {"samples": len(predictor.ids), "bytes": size, "head": predictor.head}


def export(result: str, directory: Path, as_json: bool) -> None:
    with working("exporting"):
        from munkey.deploy.model.export import export as exported

        exported(result, directory)
    with Predictor.load(directory) as predictor:
        search = predictor.search.described()
        text = f"{directory}: {counted(len(predictor.ids), 'sample')}, head {predictor.head}\nsearch: {search}"
        say(text, _left(predictor) | {"search": search}, as_json)
