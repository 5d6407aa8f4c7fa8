"""Who may ask what: each role has a token of its own."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

from fastapi import HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

ROLES = ("predict", "verify", "forget")  # each may do what those before it may
BEARER = HTTPBearer(auto_error=False, description="The token of a role: predict, verify or forget.")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
RoleCheck = Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[str | None]]


class Tokens:
    """The token of each role that has one. Without one, `predict` is open, and `verify` needs that of `forget`."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    async def role(self, request: Request, bearer: Bearer) -> str | None:
        """The role whose token came, None where none came. Raises HTTPException for another token."""
        if not request.headers.get("authorization"):
            return None
        given = bearer.credentials.strip().encode("latin-1") if bearer else b""
        for role, token in self._tokens.items():
            if hmac.compare_digest(given, token.encode()):
                return role
        raise HTTPException(
            401, "the token is none of this service", {"WWW-Authenticate": "Bearer"}
        )

    def at_least(self, role: str, but: str = "") -> RoleCheck:
        """A dependency for what needs this role or one above it. It returns the role that came.

        but: what the sentence of a refusal adds, where only a part of what is asked for needs no more than that.
        """

        async def given_role(request: Request, bearer: Bearer) -> str | None:
            given = await self.role(request, bearer)
            self.require(role, given, but)
            return given

        return given_role

    def require(self, role: str, given: str | None, but: str = "") -> None:
        """Raises HTTPException where the given role may not do what needs `role`."""
        # The least role that opens it and has a token.
        needed = next(one for one in ROLES[ROLES.index(role) :] if one in self._tokens)
        if given is None and (role != "predict" or role in self._tokens):
            sentence = f"this needs the token of {needed!r}{but}: send the header `Authorization: Bearer TOKEN`"
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
        if given is not None and ROLES.index(given) < ROLES.index(role):
            raise HTTPException(
                403, f"this needs the token of {needed!r}{but}, not that of {given!r}"
            )
