"""Who may ask what: each role has a token of its own."""

import hmac
from collections.abc import Mapping

from fastapi import HTTPException, Request

ROLES = ("predict", "verify", "forget")  # each may do what those before it may


def role_of(request: Request, tokens: Mapping[str, str]) -> str | None:
    """The role whose token came with a request; None where no token came. Raises HTTPException for another token."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, given = header.partition(" ")
    for role, token in tokens.items():
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
            return role
    raise HTTPException(401, "the token is none of this service", {"WWW-Authenticate": "Bearer"})


def require(request: Request, tokens: Mapping[str, str], role: str) -> None:
    """Raises HTTPException where a request may not do what needs this role. Predicting is open if it has no token."""
    given = role_of(request, tokens)
    if given is None and not (role == "predict" and role not in tokens):
        sentence = f"this needs the token of {role!r}: send the header `Authorization: Bearer TOKEN`"
        raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
    if given is not None and ROLES.index(given) < ROLES.index(role):
        raise HTTPException(403, f"this needs the token of {role!r}, not that of {given!r}")
