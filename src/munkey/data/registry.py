"""The registry of data sets. A data set is one decorated function that returns a `Source`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from munkey.core.registry import Registry
from munkey.data.download import PublishedFile
from munkey.data.sizes import SIZES
from munkey.data.source import Source
from munkey.settings import SourceSettings

Reader: TypeAlias = Callable[[SourceSettings], Source]
NeedsPath: TypeAlias = Literal["folder", "file"] | None
Archive: TypeAlias = Callable[[], PublishedFile]
References: TypeAlias = Callable[[Path], Sequence[Path]]


@dataclass(frozen=True)
class DatasetEntry:
    """A data set and its reader.

    Attributes
    ----------
    needs_path
        Whether source.path is a file or a folder; None for published data sets.
    folder
        The unpacked data set, used without a checksum.
    archive
        Returns the file to download. Called only if needed, because it imports heavy libraries.
    more
        Returns further files that the file at source.path refers to.
    """

    name: str
    description: str
    needs_path: NeedsPath
    folder: Path | None
    archive: Archive | None
    more: References
    load: Reader

    @property
    def train(self) -> int | None:
        """Number of training samples, if known before the data set is read."""
        return SIZES[self.name].train if self.name in SIZES else None

    def files(self, settings: SourceSettings) -> list[Path]:
        """List the files or the folder of a data set without a published checksum."""
        if self.needs_path and settings.path:
            return [Path(settings.path), *self.more(Path(settings.path))]
        return [self.folder] if self.folder else []


DATASETS: Registry[DatasetEntry] = Registry("data set", "munkey.data.sets")


def find_reader(dataset: str, settings: SourceSettings) -> DatasetEntry:
    """Find the reader of a data set: source.reader, or the one with the data set's name.

    Raises KeyError, with a list of valid names, for an unknown name.
    """
    return DATASETS[settings.reader or dataset]


def dataset(
    name: str,
    description: str,
    needs_path: NeedsPath = None,
    folder: Path | None = None,
    archive: Archive | None = None,
    more: References = lambda path: (),
) -> Callable[[Reader], Reader]:
    """Register a data set's reader.

    Parameters
    ----------
    description
        A short description for the table of data sets.
    """

    def register(load: Reader) -> Reader:
        DATASETS.add(name, DatasetEntry(name, description, needs_path, folder, archive, more, load))
        return load

    return register
