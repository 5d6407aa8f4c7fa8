"""Files of published data sets: taken from `data/` where they lie, else downloaded by torchvision's client."""

from pathlib import Path

FOLDER = Path("data")


class MissingDataError(FileNotFoundError):
    """A data set's file is not here and cannot be downloaded; the message says what to put where."""


def obtain(url: str, filename: str, md5: str, size: str, folder: Path = FOLDER) -> Path:
    """Path of the file, checked against its md5, downloaded first where it is not there.

    Raises MissingDataError where that is impossible, ValueError where the file that lies there is another or damaged.
    """
    from torchvision.datasets.utils import check_md5, download_url

    path = folder / filename
    if not path.exists():
        try:
            download_url(url, str(folder), filename, md5)
        except (OSError, RuntimeError) as error:
            path.unlink(missing_ok=True)
            raise MissingDataError(missing(filename, url, md5, size, folder)) from error
    if not check_md5(str(path), md5):
        raise ValueError(f"{path} is damaged or another file: its md5 is not {md5}. Delete it and get it anew: {url}")
    return path


def missing(filename: str, url: str, md5: str, size: str, folder: Path = FOLDER) -> str:
    """What to say where a file is missing and there is no network."""
    return (
        f"{filename} is not in {folder}/ and could not be downloaded. On a machine with a network get {url}"
        f" ({size}, md5 {md5}) and put it there as {folder / filename}; nothing else is needed"
    )
