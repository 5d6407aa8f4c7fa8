"""Errors in requests to add or forget rows. All are subclasses of `RequestError`."""

from munkey.deploy.errors import UnknownNamesError, format_first_ten


class RequestError(Exception):
    """A request to add or forget rows was refused. Nothing was changed."""


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
    """The arguments are invalid: all are None, or contain missing values, a mask or invalid ids."""


class UsedIdError(RequestError, ValueError):
    """An id is in use or may have belonged to a forgotten row. No id is used twice."""
