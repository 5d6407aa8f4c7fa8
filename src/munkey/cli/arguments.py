"""What several commands are given: a model, pictures, ids; and where they may write: never into a model."""

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from munkey.deploy.model.predictor import Predictor

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="An exported model.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[str | None, typer.Option("--ids", metavar="1,2,3", help="Ids, separated by commas.")]
Pictures = Annotated[
    list[Path], typer.Argument(metavar="PICTURE...", help="Picture files, or folders of them.", show_default=False)
]


def model(directory: Path, *, writer: bool = False) -> "AbstractContextManager[Predictor]":
    """Open a model."""
    from munkey.deploy.model.predictor import Predictor

    return Predictor.load(directory, writer=writer)


def wanted_ids(ids: str | None, ids_file: Path | None) -> list[int]:
    """The ids of `--ids` and `--ids-file`, `-` for standard input, separated by commas or white space.

    Raises ValueError for anything else.
    """
    from munkey.core.files import given_text

    texts = {} if ids is None else {"--ids": ids}
    if ids_file is not None:
        texts[str(ids_file)] = given_text(ids_file)
    wanted = []
    for where, text in texts.items():
        for word in re.split(r"[\s,]+", text.strip(" ,\n\t\r")):
            if not re.fullmatch("[0-9]{1,19}", word):  # up to 2^63 - 1
                raise ValueError(f"{where}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3")
            wanted.append(int(word))
    return wanted


def require_outside(directory: Path, file: Path) -> None:
    """Raises ValueError for a file in the model's directory, where it could destroy the model, and for a folder."""
    if file.is_dir():
        raise ValueError(f"{file}: is a folder; give the name of a file in it, outside the model's directory")
    if (file.parent.resolve() / file.name).is_relative_to(directory.resolve()):
        raise ValueError(f"{file}: lies in the model's directory, where it could destroy the model; write it elsewhere")


def require_certificate(directory: Path, file: Path) -> None:
    """Raises ValueError where a certificate and its page cannot be written."""
    from munkey.deploy import certificate

    require_outside(directory, file)
    require_outside(directory, certificate.page_of(file))
