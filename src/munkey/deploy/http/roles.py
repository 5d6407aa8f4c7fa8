"""Roles and their permissions. Each role has its own token."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

from fastapi import HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

ROLES = ("predict", "verify", "forget")  # each has all permissions of the roles before it
BEARER = HTTPBearer(
    auto_error=False, description="The token of a role: predict, verify, or forget."
)
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
RoleCheck = Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[str | None]]


class Tokens:
    """The token of each role that has one.

    If `predict` has no token, anyone may predict. If `verify` has none, it needs the token of
    `forget`.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    async def identify_role(self, request: Request, bearer: Bearer) -> str | None:
        """Return the role of the token in a request, or None if it has no token.

        Raises HTTPException for an unknown token.
        """
        if not request.headers.get("authorization"):
            return None
        credentials = b""
        if bearer:
            # Headers are decoded as Latin-1, so this restores the bytes that were sent.
            credentials = bearer.credentials.strip().encode("latin-1")
        for role, token in self._tokens.items():
            # Takes the same time for any guess, so that timing does not reveal a partial match.
            if hmac.compare_digest(credentials, token.encode()):
                return role
        raise HTTPException(
            401, "this service does not accept the token", {"WWW-Authenticate": "Bearer"}
        )

    def make_role_check(self, role: str, suffix: str = "") -> RoleCheck:
        """Make a dependency that requires this role or a higher one, and returns the caller's role.

        suffix: words to add to the role in a refusal, such as another role that some requests need.
        """

        async def check_role(request: Request, bearer: Bearer) -> str | None:
            caller_role = await self.identify_role(request, bearer)
            self.require_role(role, caller_role, suffix)
            return caller_role

        return check_role

    def require_role(self, role: str, caller_role: str | None, suffix: str = "") -> None:
        """Raise HTTPException unless the caller has this role or a higher one.

        caller_role: None without a token. suffix: as for `make_role_check`.
        """
        # The refusal names the lowest sufficient role that has a token. If that is a higher one, the
        # suffix would name it again.
        sufficient_roles = ROLES[ROLES.index(role) :]
        required_role = next(name for name in sufficient_roles if name in self._tokens)
        if required_role != role:
            suffix = ""
        is_open = role == "predict" and role not in self._tokens
        if caller_role is None and not is_open:
            sentence = (
                f"this needs the token of {required_role!r}{suffix}: send the header"
                " `Authorization: Bearer TOKEN`"
            )
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
        if caller_role is not None and ROLES.index(caller_role) < ROLES.index(role):
            raise HTTPException(
                403,
                f"this needs the token of {required_role!r}{suffix}, not that of {caller_role!r}",
            )
