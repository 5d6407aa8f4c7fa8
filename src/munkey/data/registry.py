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
        "file" or "folder" if source.path must be one. None for a published or built-in data set.
    folder
        The unpacked data set, used without a checksum.
    archive
        Returns the file to download. Called only if needed, because it imports heavy libraries.
    more
        Returns further files that the file at source.path refers to.
    load
        The reader.
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
        """List the files or the folder that this data set reads without a published checksum."""
        if self.needs_path and settings.path:
            return [Path(settings.path), *self.more(Path(settings.path))]
        return [self.folder] if self.folder else []


DATASETS: Registry[DatasetEntry] = Registry("data set", "munkey.data.sets")


def find_reader(dataset: str, settings: SourceSettings) -> DatasetEntry:
    """Find the reader of a data set: source.reader, or the one with the data set's name.

    Raises KeyError, which lists the valid names.
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
    """Register the decorated function as a data set's reader. Parameters: as in `DatasetEntry`."""

    def register(load: Reader) -> Reader:
        entry = DatasetEntry(
            name=name,
            description=description,
            needs_path=needs_path,
            folder=folder,
            archive=archive,
            more=more,
            load=load,
        )
        DATASETS.add(name, entry)
        return load

    return register
