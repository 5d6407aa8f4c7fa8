"""Errors of requests to add or forget rows, all subclasses of `RequestError`."""

from munkey.deploy.errors import UnknownNamesError, format_first_ten


class RequestError(Exception):
    """A request to add or to forget was refused. Nothing was changed."""


class UnknownRowsError(RequestError, UnknownNamesError):
    """No row has these ids, units, classes or files.

    Attributes
    ----------
    missing : tuple of str
        The requested names that no row has.
    hint : str
        A sentence with similar names, or an empty string.
    """

    def __str__(self) -> str:
        message = (
            f"no row has these names, so nothing was forgotten: {format_first_ten(self.missing)}; correct"
            " them, or pass ignore_missing=True to forget the others"
        )
        if self.hint:
            return f"{message}. {self.hint}"
        return message


class InvalidRequestError(RequestError, ValueError):
    """The arguments are invalid: none given, missing values, a mask, or fractional ids."""


class UsedIdError(RequestError, ValueError):
    """An id is in use, or may have belonged to a forgotten row. Ids are never reused."""
