"""The commands that use a model: predict, forget, add, export, serve."""

import secrets
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.cli.arguments import (
    AsJson,
    Directory,
    Ids,
    Pictures,
    model,
    require_certificate,
    require_outside,
    wanted_ids,
)
from munkey.cli.output import say, tracked, working
from munkey.core.console import counted

if TYPE_CHECKING:
    import numpy as np

    from munkey.deploy.model.predictor import Predictor

PICTURES_AT_ONCE = 64  # pictures that are answered together
NO_CERTIFICATE = "\ncertificate: none, since there is nothing to delete"


def predict(
    directory: Directory,
    pictures: Pictures,
    explain: Annotated[bool, typer.Option("--explain", help="List the samples that each answer rests on.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that shows pictures and neighbors.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify pictures.

    \b
    munkey predict model picture.png
    munkey predict model folder-of-pictures --explain --html answer.html
    munkey predict model *.png --json | jq '.predictions[].class'

    The page shows a neighbor's picture if its source file is still there. Samples without files, such as those of
    digits, are shown by their id alone; in Python, munkey.deploy.model.explain.page(answer, images) shows
    their pictures too.
    """
    from munkey.core.files import atomic
    from munkey.deploy import json_answers
    from munkey.deploy.model.explain import is_page, page
    from munkey.deploy.model.images import each

    if html:
        require_outside(directory, html)
        if html.exists() and not (html.is_file() and is_page(html)):
            raise ValueError(
                f"{html}: exists and was not made by this command, so it is left as it is; choose a new name"
            )
    with model(directory) as predictor:
        single = list(each(pictures))
        size = len(single) if html else PICTURES_AT_ONCE  # a page needs all of them
        parts = [single[start : start + size] for start in range(0, len(single), size)]
        answers = []
        for part in tracked(parts, "answering"):
            prediction = predictor.predict(part)
            answers += json_answers.predicted(prediction, explain=explain)["predictions"]
        if html:
            with atomic(html) as temporary, redirect_stdout(sys.stderr):
                temporary.write_text(page(prediction), encoding="utf-8")
    lines = []
    for answer in answers:
        lines.append(f"{answer['file']}: {answer['class']} ({answer['probability']:.1%})")
        for near in answer.get("neighbors", []):
            facts = f"id {near['id']}, {near['label']}, cosine {near['cosine']:.3f}"
            lines.append(f"  {near['weight']:.3f}  {facts}{', ' if near['file'] else ''}{near['file'] or ''}")
    say("\n".join(lines), {"predictions": answers}, as_json)


def forget(
    directory: Directory,
    ids: Ids = None,
    ids_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of ids, one per line; - is standard input.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--files", metavar="PICTURE", help="The source file of a sample; may be repeated."),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Forget what is there, even if some ids or files are missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Purge, then write a certificate as JSON, with a page beside it."),
    ] = None,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Name the ids in the certificate, which makes it a trace of them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Forget the named samples, or none if one is unknown. No answer rests on them once the command has returned.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files cats/tom.png --files cats/felix.png --certificate tom.json
    munkey forget model --ids-file leave.txt --ignore-missing --dry-run

    Prints the head of the chain of deletions. Keep it elsewhere: `munkey verify DIR --published HEAD` then finds an
    older copy that was put back.
    """
    wanted = wanted_ids(ids, ids_file)
    if not wanted and not files:
        raise ValueError("name what to forget: --ids, --ids-file or --files")
    if list_ids and not certificate:
        raise ValueError("--list-ids names the ids in a certificate: give its file, --certificate FILE")
    if certificate:
        require_certificate(directory, certificate)
    with model(directory, writer=not dry_run) as predictor:
        chosen, missing = _chosen(predictor, wanted, files or [], ignore_missing)
        also_missing = f"; not in the memory: {', '.join(missing)}" if missing else ""
        value: dict[str, object]
        if dry_run:
            left = len(predictor.ids) - len(chosen)
            text = f"would forget {counted(len(chosen), 'sample')} and keep {left:,}; nothing was changed{also_missing}"
            if certificate:
                text += f"\ncertificate: would be written to {certificate}" if len(chosen) else NO_CERTIFICATE
            value = {"would_delete": chosen.tolist(), "missing": missing, "left": left, "head": predictor.head}
        else:
            text, value = _forgotten(predictor, chosen, certificate, list_ids)
            text = f"forgot {counted(len(chosen), 'sample')}, {value['left']:,} left{also_missing}{text}"
            value["missing"] = missing
    say(text, value, as_json)


def _chosen(
    predictor: "Predictor", wanted: Sequence[int], files: Sequence[Path], ignore_missing: bool
) -> tuple["np.ndarray", list[str]]:
    """The ids that are meant and held, ascending, (N,) int64; and the ids and files that are not held.

    Raises UnknownIdsError or UnknownNamesError that lists all of these, unless they may be missing.
    """
    selection = predictor.select(ids=wanted, files=files, ignore_missing=ignore_missing)
    return selection.ids, list(selection.missing)


def _forgotten(
    predictor: "Predictor", ids: "np.ndarray", file: Path | None, list_ids: bool
) -> tuple[str, dict[str, Any]]:
    """Forget; with a file, purge and write the certificate. What is said of it, in words and as JSON.

    Where a reader is in the way of the purge, zeros are on the disk, but names of source files may stay.
    """
    from munkey.deploy import certificate, json_answers
    from munkey.deploy.store.errors import LockedMemoryError

    before = certificate.snapshot(predictor.store)
    with working("forgetting"):
        receipt = predictor.forget(ids)
    value = json_answers.forgotten(receipt) | {"purged": False, "left": len(predictor.ids)}
    text = f"\nhead of the chain: {receipt.after}"
    if file is None:
        return text, value
    if not receipt.sequences:
        return text + NO_CERTIFICATE, value | {"certificate": None}
    try:
        foreign = predictor.store.purge()
        value["purged"] = not foreign
        if foreign:
            print(
                f"munkey: purged, but not part of the memory, so not looked at: {', '.join(foreign)}", file=sys.stderr
            )
    except LockedMemoryError as error:
        print(f"munkey: {error}; until then, names of source files may be left in it", file=sys.stderr)
    salt = secrets.token_bytes(16)
    made = certificate.certify(predictor.store, receipt, before, purged=value["purged"])
    made = certificate.naming(made, ids.tolist(), salt, listed=list_ids)
    try:
        page = certificate.write_certificate(made, file)
    except OSError as error:
        done = f"the samples are forgotten, and the head of the chain is {receipt.after}, but the certificate"
        later = "`munkey certificate` writes one later, which cannot say which samples they were"
        raise OSError(f"{done} cannot be written ({error}); {later}") from error
    text += f"\ncertificate: {file}; readable page: {page}\nsalt of its ids, stored in no file: {salt.hex()}"
    return text, value | {"certificate": str(file), "page": str(page), "salt": salt.hex()}


def add(
    directory: Directory,
    pictures: Pictures,
    label: Annotated[str, typer.Option(metavar="CLASS", help="The name of their class.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Remember pictures of a class, without training.

    \b
    munkey add model new/*.png --label cat
    """
    from munkey.deploy.model.images import each

    with model(directory, writer=True) as predictor:
        single = list(each(pictures))
        with working("adding"):
            ids: list[int] = predictor.add(single, [label] * len(single)).ids.tolist()
    said_ids = f"id {ids[0]}" if len(ids) == 1 else f"ids {ids[0]} to {ids[-1]}"
    say(f"added {len(ids)} of class {label}: {said_ids}", {"ids": ids, "label": label}, as_json)


def export(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="NAME/DATASET/seedS, or a result's folder.", show_default=False)
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Export a result of the pipeline as a model.

    \b
    munkey export default/digits/seed0 model
    munkey export results/default/models/digits/seed0/full/original-m model

    The directory has all that is needed to classify and to forget, and a model card. Nothing in it runs code.
    """
    with working("exporting"):
        from munkey.deploy.model.export import export as exported

        exported(result, directory)
    with model(directory) as predictor:
        search, facts = predictor.search.described(), predictor.summary()
    text = f"{directory}: {counted(facts['samples'], 'sample')}, head {facts['head']}\nsearch: {search}"
    say(text, facts | {"search": search}, as_json)


def serve(
    directory: Directory,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with the token for deleting. Or set MUNKEY_TOKEN; else one is generated."
        ),
    ] = None,
    verify_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="That for checking and listing. Or set MUNKEY_VERIFY_TOKEN.")
    ] = None,
    predict_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="That for predicting, else open. Or set MUNKEY_PREDICT_TOKEN."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the model over HTTP, and say how to call it.

    \b
    munkey serve model --port 8000
    MUNKEY_TOKEN=$(cat token) munkey serve model --host 0.0.0.0
    """
    from munkey.deploy.http import server

    files = {"forget": token_file, "verify": verify_token_file, "predict": predict_token_file}
    server.serve(directory, host, port, files, lambda how: say(how, {"how": how}, as_json))
