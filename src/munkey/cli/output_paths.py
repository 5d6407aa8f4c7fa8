"""Where a command may write: never into a model, and over no file but a page of its own."""

from pathlib import Path


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


def require_page(directory: Path, file: Path) -> None:
    """Raises ValueError where a page that explains answers cannot be written: it only replaces another such page."""
    from munkey.deploy.model import explain

    require_outside(directory, file)
    if file.exists() and not (file.is_file() and explain.is_page(file)):
        raise ValueError(f"{file}: exists and was not made by this command, so it is left as it is; choose a new name")
