"""Files of published data sets, in `data/` or downloaded with torchvision.

Planning imports this module, so torchvision is imported only inside functions.
"""

import urllib.request
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("data")
TIMEOUT_S = 30


class MissingDataError(FileNotFoundError):
    """A data set's file is missing and cannot be downloaded.

    The message names the file and where to put it.
    """


@dataclass(frozen=True)
class PublishedFile:
    """A file to download, or the folder `unpacked` in its place. `size` is a text for messages."""

    url: str
    name: str
    md5: str
    size: str
    unpacked: str | None = None

    def obtain(self, folder: Path = FOLDER, own_md5: str | None = None) -> Path:
        """Return the path of the file in `folder`, after downloading it if it is missing.

        `own_md5` is that of the user's own, repacked copy, which is not downloaded. Raises
        MissingDataError if the file is missing, and ValueError if it has another MD5.
        """
        from torchvision.datasets.utils import check_md5, download_url

        path = folder / self.name
        partial_path = folder / f".{self.name}.part"  # an interrupted download leaves no `path`
        if own_md5 and not path.exists():
            raise MissingDataError(
                f"{path} is missing. source.md5 is set, so your own copy is expected: put it there, or set source.md5"
                " to null to download the published file"
            )
        if not path.exists():
            try:
                download_url(self.url, str(folder), partial_path.name, self.md5)
            except (OSError, RuntimeError) as error:
                partial_path.unlink(missing_ok=True)
                raise self.make_missing_file_error(folder) from error
            partial_path.replace(path)
        if not check_md5(str(path), own_md5 or self.md5):
            raise self.make_damaged_file_error(path, own_md5)
        return path

    def make_damaged_file_error(self, path: Path, own_md5: str | None = None) -> ValueError:
        """Make the error for a file that is neither the published one nor the user's own copy."""
        from torchvision.datasets.utils import calculate_md5

        return ValueError(
            f"{path} is damaged or a different file: its md5 is not {own_md5 or self.md5}. Replace it with a complete"
            f" copy from {self.url}, or move it elsewhere and run again to download it. If you repacked this copy, set"
            f" source.md5 of this data set to {calculate_md5(str(path))} (docs/data.md#published-data)"
        )

    def is_here(self, folder: Path = FOLDER) -> bool:
        """Return whether `folder` has the file or its unpacked folder. Does not check contents."""
        if (folder / self.name).exists():
            return True
        return self.unpacked is not None and (folder / self.unpacked).exists()

    def bytes_to_download(self, folder: Path = FOLDER) -> int:
        """Return how many bytes `obtain` would download; 0 if none, or an unknown number.

        Raises MissingDataError if the file is missing and its server does not offer it.
        """
        if self.is_here(folder):
            return 0
        from torchvision.datasets.utils import USER_AGENT

        head_request = urllib.request.Request(
            self.url, method="HEAD", headers={"User-Agent": USER_AGENT}
        )
        try:
            with urllib.request.urlopen(head_request, timeout=TIMEOUT_S) as response:
                return int(response.headers["Content-Length"] or 0)
        except OSError as error:
            raise self.make_missing_file_error(folder) from error

    def make_missing_file_error(self, folder: Path = FOLDER) -> MissingDataError:
        """Make the error for a file that is not in `folder` and cannot be downloaded."""
        return MissingDataError(
            f"{self.name} is not in {folder}/ and could not be downloaded. On a machine with Internet access,"
            f" download {self.url} ({self.size}, md5 {self.md5}), then copy it here as {folder / self.name};"
            " nothing else is needed"
        )
