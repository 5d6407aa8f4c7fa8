"""Errors in requests to add or forget rows. All are subclasses of `RequestError`."""

from munkey.deploy.errors import UnknownNamesError, format_first_ten


class RequestError(Exception):
    """A request to add or forget rows was rejected. Nothing was changed."""


class UnknownRowsError(RequestError, UnknownNamesError):
    """No row has these ids, units, classes or files.

    Attributes
    ----------
    missing : tuple of str
        The requested ids, units, classes and files without rows.
    hint : str
        A sentence that suggests similar names, or an empty string.
    """

    def __str__(self) -> str:
        message = (
            "no row has these names, so nothing was forgotten:"
            f" {format_first_ten(self.missing)}; correct them, or pass ignore_missing=True to"
            " forget all other rows in the request"
        )
        if self.hint:
            return f"{message}. {self.hint}"
        return message


class InvalidRequestError(RequestError, ValueError):
    """The arguments of a request are invalid, for example ids that are not integers."""


class UsedIdError(RequestError, ValueError):
    """The id of a new row is in use or may have belonged to a forgotten row."""
