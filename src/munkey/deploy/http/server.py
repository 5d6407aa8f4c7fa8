"""Running the service: its socket, its token, and how to call it."""

import os
import secrets
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from munkey.core.files import given_text
from munkey.deploy.http.service import RequestLimits, application
from munkey.deploy.model.predictor import Predictor

TOKEN = "MUNKEY_TOKEN"  # the environment variable that holds the token
SHORTEST = 16  # characters of a token
WAITING, GRACE_S = 512, 30  # connections at once: more are turned away; seconds for those under way when it is stopped

HOW_TO = """\
munkey serves {directory} at {url}, and ends with Ctrl-C. Call it like this:

  curl {url}/health
  curl -H 'Content-Type: image/png' --data-binary @PICTURE.png '{url}/predict?explain=true'
  printf '{{"images": ["%s"]}}' "$(base64 < PICTURE.png | tr -d '\\n')" |
    curl -H 'Content-Type: application/json' --data-binary @- {url}/predict
  curl -H 'Content-Type: application/json' -H "Authorization: Bearer {token}" \\
    -d '{{"ids": [1, 2, 3]}}' {url}/forget
  curl {url}/verify
"""


def token_for(file: Path | None) -> str | None:
    """The token that deleting needs: from a file, or the environment; None where there is none.

    Raises ValueError for one that can be guessed.
    """
    token = given_text(file) if file else os.environ.get(TOKEN)
    if token is not None and (len(token.strip()) < SHORTEST or not token.strip().isascii()):
        raise ValueError(f"{file or TOKEN}: a token must have {SHORTEST} characters or more, all of them ASCII")
    return token.strip() if token else None


def in_a_shell(file: Path | None) -> str:
    """Where a shell finds the token that the user has: it is not printed."""
    return f"$(cat {shlex.quote(str(file))})" if file else f"${TOKEN}"


def serve(directory: Path, host: str, port: int, token_file: Path | None, say: Callable[[str], None]) -> None:
    """Serve until it is told to end. say: takes the text that tells how to call it, once it can be called.

    Raises LockedMemoryError where the model is served or written already, OSError where the address is taken.
    """
    token = token_for(token_file)
    with (
        Predictor.load(directory, writer=True) as predictor,
        socket.create_server((host, port), backlog=2048) as listening,
    ):
        predictor.warm_up()
        fresh = secrets.token_urlsafe(32)
        config = uvicorn.Config(
            application(predictor, token or fresh, RequestLimits()),
            log_level="warning",
            limit_concurrency=WAITING,
            timeout_graceful_shutdown=GRACE_S,
        )
        url = f"http://{host}:{listening.getsockname()[1]}"
        shown = in_a_shell(token_file) if token else fresh
        say(HOW_TO.format(directory=directory, url=url, token=shown))
        uvicorn.Server(config).run(sockets=[listening])
