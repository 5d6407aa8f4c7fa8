"""What an estimator refuses to add or to forget: one family of errors, all of them subclasses of `RequestError`."""

from munkey.deploy.errors import UnknownNamesError, first_ten


class RequestError(Exception):
    """A request to add or to forget was not carried out, and nothing was changed."""


class UnknownRowsError(RequestError, UnknownNamesError):
    """No row has these ids, units, classes or files.

    Attributes
    ----------
    missing : tuple of str
        All names that no row has.
    hint : str
        Names that are near these, in a sentence, or nothing.
    """

    def __str__(self) -> str:
        to_do = "correct them, or pass ignore_missing=True to forget the others"
        words = (
            f"no row has these names, so nothing was forgotten: {first_ten(self.missing)}; {to_do}"
        )
        return f"{words}. {self.hint}" if self.hint else words


class InvalidRequestError(RequestError, ValueError):
    """What was passed names no rows: nothing at all, missing values, a mask, or ids that are not whole numbers."""


class UsedIdError(RequestError, ValueError):
    """An id is in use, or may be that of a row that was forgotten: no id is used twice."""
