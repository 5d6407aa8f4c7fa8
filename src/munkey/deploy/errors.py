"""What can go wrong with a model in a directory and with what it is asked, in words that a person can act on."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from munkey.core.console import one_line

OTHER_VERSION = (  # what to do
    "another version of munkey made it: use that one, or move it elsewhere, export again and forget what was forgotten"
)

HELD = "which holds nothing that was forgotten, and no pictures of validation and test"


def first_ten(values: Sequence[object]) -> str:
    """The first ten, separated by commas, and how many there are in all."""
    more = f", … ({len(values):,} in all)" if len(values) > 10 else ""
    return ", ".join(one_line(str(value)) for value in values[:10]) + more


class UnreadableModelError(ValueError):
    """The directory is not a model that this version can read; nothing in it was changed. path: of what is wrong."""

    def __init__(
        self, path: Path, why: str, what_to_do: str = "put an undamaged copy there"
    ) -> None:
        super().__init__(f"{path}: {why}. Nothing was changed; {what_to_do}")


class PictureError(ValueError):
    """A picture cannot be used: nothing was answered, and nothing added."""


class EmptyModelError(ValueError):
    """Every sample was forgotten: what answers would rest on nothing that the memory holds."""

    def __init__(self, directory: Path, is_fitted: bool) -> None:
        # A sample that is added to a MUNKEY borrows a trained one's token.
        to_do = "add samples first" if is_fitted else "train anew"
        super().__init__(
            f"{directory}: every sample was forgotten, so there is nothing to answer from; {to_do}"
        )


class UnknownNamesError(KeyError):
    """Files, classes, units or ids that no sample of the memory has. missing: all of them; hint: of near names."""

    def __init__(self, missing: Sequence[str], hint: str = "") -> None:
        super().__init__(missing)
        self.missing = tuple(missing)
        self.hint = hint

    def __str__(self) -> str:
        said = f"no sample of this memory ({HELD}) has these names, so nothing was done: {first_ten(self.missing)}"
        return f"{said}. {self.hint}" if self.hint else said


class AmbiguousFileError(ValueError):
    """A name that means two source files: that of a sample by what the memory says, and another that lies there now.

    ids: of the samples of each.
    """

    def __init__(self, ids: Mapping[str, Collection[int]]) -> None:
        meant = " or ".join(f"{file} (ids {first_ten(sorted(own))})" for file, own in ids.items())
        super().__init__(
            f"this can be {meant}, so nothing was done; name ids, or the file by its absolute path"
        )


class ExportError(ValueError):
    """A result cannot be exported; the message says what is missing."""


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Read what somebody else may have written: whatever a library raises on it becomes an UnreadableModelError."""
    try:
        yield
    except UnreadableModelError:
        raise
    except Exception as error:
        raise UnreadableModelError(
            path, f"cannot be read ({type(error).__name__}: {error})"
        ) from error
