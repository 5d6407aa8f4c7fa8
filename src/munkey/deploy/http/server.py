"""Running the service: its socket, its tokens, and how to call it."""

import os
import secrets
import shlex
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from munkey.core.files import given_text
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.roles import ROLES
from munkey.deploy.http.service import application
from munkey.deploy.model.predictor import Predictor

VARIABLES = {role: f"MUNKEY_{role.upper()}_TOKEN" for role in ROLES} | {"forget": "MUNKEY_TOKEN"}  # that hold tokens
SHORTEST = 16  # characters of a token
WAITING, GRACE_S = 512, 30  # connections at once: more are turned away; seconds for those under way when it is stopped

HOW_TO = """\
munkey serves {directory} at {url}, and ends with Ctrl-C. Call it like this:

  curl {url}/health
  curl -H 'Content-Type: image/png' {predict}--data-binary @PICTURE.png {url}/predict
  printf '{{"images": ["%s"], "explain": true}}' "$(base64 < PICTURE.png | tr -d '\\n')" |
    curl -H 'Content-Type: application/json' {verify}--data-binary @- {url}/predict
  curl -H 'Content-Type: application/json' {forget}\\
    -d '{{"ids": [1, 2, 3], "dry_run": true}}' {url}/forget
  curl {verify}'{url}/rows?limit=10'
  curl {verify}{url}/verify
"""


def token_for(role: str, file: Path | None) -> str | None:
    """The token of a role: from a file, or the environment; None where there is none.

    Raises ValueError for one that can be guessed.
    """
    token = given_text(file) if file else os.environ.get(VARIABLES[role])
    if token is not None and (len(token.strip()) < SHORTEST or not token.strip().isascii()):
        place = file or VARIABLES[role]
        raise ValueError(f"{place}: a token must have {SHORTEST} characters or more, all of them ASCII")
    return token.strip() if token else None


def in_a_shell(role: str, file: Path | None) -> str:
    """Where a shell finds the token that the user has: it is not printed."""
    return f"$(cat {shlex.quote(str(file))})" if file else f"${VARIABLES[role]}"


def serve(
    directory: Path, host: str, port: int, token_files: Mapping[str, Path | None], say: Callable[[str], None]
) -> None:
    """Serve until it is told to end. say: takes the text that tells how to call it, once it can be called.

    token_files: of each role. Raises LockedMemoryError where the model is served or written already, OSError where the
    address is taken, ValueError for a token that can be guessed or that two roles have.
    """
    tokens = {role: token for role in ROLES if (token := token_for(role, token_files.get(role)))}
    if len(set(tokens.values())) < len(tokens):
        raise ValueError(f"each role needs a token of its own: {', '.join(tokens)}")
    printed = {role: in_a_shell(role, token_files.get(role)) for role in tokens}
    if "forget" not in tokens:
        tokens["forget"] = printed["forget"] = secrets.token_urlsafe(32)
    with (
        Predictor.load(directory, writer=True) as predictor,
        socket.create_server((host, port), backlog=2048) as listening,
    ):
        predictor.warm_up()
        config = uvicorn.Config(
            application(predictor, tokens, RequestLimits()),
            log_level="warning",
            limit_concurrency=WAITING,
            timeout_graceful_shutdown=GRACE_S,
        )
        url = f"http://{host}:{listening.getsockname()[1]}"
        headers = {role: f'-H "Authorization: Bearer {token}" ' for role, token in printed.items()}
        headers = {"predict": "", "verify": headers["forget"]} | headers
        say(HOW_TO.format(directory=directory, url=url, **headers))
        uvicorn.Server(config).run(sockets=[listening])
