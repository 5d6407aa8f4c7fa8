"""Commands that use a model: predict, add, export and serve. `forget` and `find` have their own files."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from munkey.cli.arguments import (
    DEFAULT_WAIT_S,
    AsJson,
    Directory,
    OnBadPictures,
    Pictures,
    Wait,
    open_model,
)
from munkey.cli.output import print_result, show_spinner
from munkey.core.console import pluralize

BATCH_SIZE = 64  # pictures
# As `request_queue.PURGE_LATEST_S`, whose module takes seconds to import.
PURGE_WITHIN_S = 600.0


def predict(
    directory: Directory,
    pictures: Pictures,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the samples behind each prediction.")
    ] = False,
    only_held_classes: Annotated[
        bool,
        typer.Option(
            "--only-held-classes", help="Never predict a class without samples in the memory."
        ),
    ] = False,
    on_bad: OnBadPictures = "raise",
    as_json: AsJson = False,
) -> None:
    """Classify pictures.

    \b
    munkey predict model picture.png
    munkey predict model folder-of-pictures --explain
    munkey predict model *.png --json | jq '.predictions[].class'
    """
    from rich.console import Console
    from rich.progress import track

    from munkey.deploy import json_format
    from munkey.deploy.errors import PictureError
    from munkey.deploy.model.images import iterate_pictures

    with open_model(directory) as predictor:
        files = list(iterate_pictures(pictures))
        batches = [files[i : i + BATCH_SIZE] for i in range(0, len(files), BATCH_SIZE)]
        records = []
        basis = ""
        faults = []
        console = Console(stderr=True)
        is_silent = not sys.stderr.isatty()
        for batch in track(batches, "predicting", console=console, disable=is_silent):
            try:
                with warnings.catch_warnings(record=True) as skip_warnings:
                    warnings.simplefilter("always", UserWarning)
                    prediction = predictor.predict(
                        batch, only_held_classes=only_held_classes, on_bad=on_bad
                    )
            except PictureError as error:
                faults.append(str(error))  # continue, to report the faults of all batches
                continue
            faults += [str(warning.message) for warning in skip_warnings]
            records += json_format.format_prediction(prediction, explain=explain)["predictions"]
            basis = prediction.basis  # the same for all batches
        if faults and (on_bad == "raise" or not records):
            raise PictureError("\n".join(faults))
        for fault in faults:
            print(f"munkey: {fault}", file=sys.stderr)
    lines = []
    for record in records:
        lines += _describe_prediction(record)
    result: dict[str, object] = {"predictions": records}
    if explain:
        lines.append(basis)
        result["basis"] = basis
    print_result("\n".join(lines), result, as_json)


def _describe_prediction(record: dict[str, Any]) -> list[str]:
    """Return a line with the predicted class, and one line per neighbor behind the prediction."""
    lines = [f"{record['file']}: {record['class']} ({record['probability']:.1%})"]
    for neighbor in record.get("neighbors", []):
        facts = f"id {neighbor['id']}, {neighbor['class']}, cosine {neighbor['cosine']:.3f}"
        if neighbor["file"]:
            facts += f", {neighbor['file']}"
        lines.append(f"  {neighbor['weight']:.3f}  {facts}")
    return lines


def _refuse_label(value: str | None) -> None:
    """Raise BadParameter if the user passes --label, which has been renamed to --class."""
    if value is not None:
        raise typer.BadParameter("this option has been renamed to --class", param_hint="--label")


RenamedLabel = Annotated[
    str | None, typer.Option("--label", hidden=True, is_eager=True, callback=_refuse_label)
]


def add(
    directory: Directory,
    pictures: Pictures,
    label: Annotated[
        str,
        typer.Option("--class", metavar="NAME", help="The pictures' class.", show_default=False),
    ],
    _label: RenamedLabel = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The pictures' unit, e.g. the person in them."),
    ] = None,
    allow_blocked: Annotated[
        bool,
        typer.Option(
            "--allow-blocked", help="Also add pictures that were forgotten with --block-return."
        ),
    ] = False,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: AsJson = False,
) -> None:
    """Add pictures of one class to the memory without training, and list exact copies in the memory.

    \b
    munkey add model new/*.png --class cat
    munkey add model new/*.png --class cat --unit 'Anna K.'
    """
    from munkey.data.intake.unit_names import unit_name
    from munkey.deploy import json_format
    from munkey.deploy.errors import format_first_ten
    from munkey.deploy.model.images import iterate_pictures

    if unit is not None and unit_name(unit) is None:
        raise ValueError(f"--unit {unit!r} means no unit; leave it out, or give the unit's name")
    with open_model(directory, wait=wait) as predictor:
        files = list(iterate_pictures(pictures))
        with show_spinner("adding"):
            addition = predictor.add(
                files,
                [label] * len(files),
                units=[unit] * len(files),
                allow_blocked=allow_blocked,
            )
    result = json_format.format_addition(addition) | {"class": label}
    ids = result["ids"]
    if len(ids) == 1:
        id_range = f"id {ids[0]}"
    else:
        id_range = f"ids {ids[0]} to {ids[-1]}"
    lines = [f"added {len(ids)} of class {label}: {id_range}"]
    for new_id, copy_ids in addition.identical.items():
        lines.append(f"id {new_id} is an exact copy of {format_first_ten(copy_ids)}")
    print_result("\n".join(lines), result, as_json)


def export(
    result: Annotated[
        str,
        typer.Argument(
            metavar="RESULT",
            help="NAME/DATASET/seedN of a finished run, or the directory of a system.",
            show_default=False,
        ),
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory to create.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Export a result of the pipeline as a model.

    \b
    munkey export default/digits/seed0 model
    munkey export results/default/models/digits/seed0/full/original-m model

    The directory contains a model card and everything needed to classify samples and to forget
    them. It contains no code.
    """
    with show_spinner("exporting"):
        from munkey.deploy.model.export import export as export_model

        export_model(result, directory)
    with open_model(directory) as predictor:
        facts = predictor.summary()
    print_result(
        f"{directory}: {pluralize(facts['samples'], 'sample')}, head {facts['head']}",
        facts,
        as_json,
    )


def serve(
    directory: Directory,
    host: Annotated[
        str, typer.Option(help="The address to listen on. 0.0.0.0: all networks.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token that allows everything, including deletion. Default: a random token.",
        ),
    ] = None,
    purge_within: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Purge at the latest this long after a deletion; when idle, after 10 s.",
        ),
    ] = PURGE_WITHIN_S,
    as_json: AsJson = False,
) -> None:
    """Serve the model over HTTP, and print how to call it.

    \b
    munkey serve model --port 8000
    MUNKEY_TOKEN=$(cat token) munkey serve model --host 0.0.0.0

    Environment variables can set tokens with fewer rights: MUNKEY_VERIFY_TOKEN to check and list,
    MUNKEY_PREDICT_TOKEN to predict. Without MUNKEY_PREDICT_TOKEN, anyone may predict.
    """
    from munkey.deploy.http import server

    def print_instructions(text: str) -> None:
        print_result(text, {"how": text}, as_json)

    server.serve(directory, host, port, token_file, purge_within, print_instructions)
