"""Who may ask what: each role has a token of its own."""

import hmac
from collections.abc import Mapping

from fastapi import HTTPException, Request

ROLES = ("predict", "verify", "forget")  # each may do what those before it may


class Tokens:
    """The token of each role that has one. Without one, `predict` is open, and `verify` needs that of `forget`."""

    def __init__(self, of: Mapping[str, str]) -> None:
        self._of = of

    def role(self, request: Request) -> str | None:
        """The role whose token came with a request, None where none came. Raises HTTPException for another token."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            return None
        for role, token in self._of.items():
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
                return role
        raise HTTPException(401, "the token is none of this service", {"WWW-Authenticate": "Bearer"})

    def require(self, role: str, request: Request, but: str = "") -> None:
        """Raises HTTPException where a request may not do what needs this role.

        but: what the sentence adds, where only a part of what is asked for needs no more than that.
        """
        given = self.role(request)
        # The least role that opens it and has a token.
        needed = next(one for one in ROLES[ROLES.index(role) :] if one in self._of)
        if given is None and (role != "predict" or role in self._of):
            sentence = f"this needs the token of {needed!r}{but}: send the header `Authorization: Bearer TOKEN`"
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
        if given is not None and ROLES.index(given) < ROLES.index(role):
            raise HTTPException(403, f"this needs the token of {needed!r}{but}, not that of {given!r}")
