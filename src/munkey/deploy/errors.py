"""Errors of an exported model, and of requests to it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from munkey.core.console import format_first_ten
from munkey.memory.errors import UnreadableModelError

__all__ = [
    "MEMORY_SCOPE",
    "OTHER_VERSION",
    "AmbiguousFileError",
    "EmptyModelError",
    "ExportError",
    "PictureError",
    "UnknownNamesError",
    "UnreadableModelError",
    "format_first_ten",
    "translate_read_errors",
]

OTHER_VERSION = (
    "another version of munkey wrote it: use that version, or move it elsewhere, export again and"
    " repeat the deletions"
)

MEMORY_SCOPE = "which holds nothing that was forgotten, and no pictures of validation and test"


class PictureError(ValueError):
    """A picture cannot be used. Nothing was predicted, and nothing was added."""


class EmptyModelError(ValueError):
    """Every sample was forgotten, so the memory has nothing to predict from."""

    def __init__(self, directory: Path, is_fitted: bool) -> None:
        """Format the message. is_fitted: whether the model is of a fitted family, such as LDA."""
        # Adding does not help MUNKEY: a sample that is added borrows the token of a trained one.
        what_to_do = "add samples first" if is_fitted else "train a new model"
        super().__init__(
            f"{directory}: every sample was forgotten, so there is nothing to predict from;"
            f" {what_to_do}"
        )


class UnknownNamesError(KeyError):
    """Some files, classes, units, or ids match no sample in the memory.

    missing: all of these names. hint: a sentence that suggests similar names; may be empty.
    """

    def __init__(self, missing: Sequence[str], hint: str = "") -> None:
        super().__init__(missing)
        self.missing = tuple(missing)
        self.hint = hint

    def __str__(self) -> str:
        message = (
            f"no sample of this memory ({MEMORY_SCOPE}) has these names:"
            f" {format_first_ten(self.missing)}"
        )
        if self.hint:
            message += f". {self.hint}"
        return message


class AmbiguousFileError(ValueError):
    """A name matches more than one source file, such as one by its name and one by its path.

    ids_by_file: the ids of the samples from each file.
    """

    def __init__(self, ids_by_file: Mapping[str, Collection[int]]) -> None:
        files = [
            f"{file} (ids {format_first_ten(sorted(ids))})" for file, ids in ids_by_file.items()
        ]
        super().__init__(
            f"this can be {' or '.join(files)}, so nothing was done; give ids, or the file's"
            " absolute path"
        )


class ExportError(ValueError):
    """A result cannot be exported. The message names the missing part."""


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn any error in the block, which reads a file, into an UnreadableModelError for `path`."""
    try:
        yield
    except UnreadableModelError:
        raise
    except Exception as error:
        raise UnreadableModelError(
            path, f"cannot be read ({type(error).__name__}: {error})"
        ) from error
