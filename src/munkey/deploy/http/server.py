"""Running the service: its socket, its tokens, and how to call it."""

import os
import secrets
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from munkey.core.files import given_text
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.roles import ROLES
from munkey.deploy.http.service import application
from munkey.deploy.predictor import Predictor

# that hold tokens
VARIABLES = {role: f"MUNKEY_{role.upper()}_TOKEN" for role in ROLES} | {"forget": "MUNKEY_TOKEN"}
SHORTEST = 16  # characters of a token
# connections at once: more are turned away; seconds for those under way when it is stopped
WAITING, GRACE_S = 512, 30

OF_PICTURES = """\
  curl -H 'Content-Type: image/png' {predict}--data-binary @PICTURE.png {url}/predict
  printf '{{"images": ["%s"], "explain": true}}' "$(base64 < PICTURE.png | tr -d '\\n')" |
    curl -H 'Content-Type: application/json' {verify}--data-binary @- {url}/predict"""
OF_ROWS = """\
  curl -H 'Content-Type: application/json' {predict}-d '{{"rows": [[0.1, 0.2, …]]}}' {url}/predict"""
HOW_TO = """\
munkey serves {directory} at {url}, and ends with Ctrl-C. Call it like this:

  curl {url}/health
{ask}
  curl -H 'Content-Type: application/json' {forget}\\
    -d '{{"ids": [1, 2, 3], "dry_run": true}}' {url}/forget
  curl {verify}'{url}/rows?limit=10'
  curl {verify}{url}/verify
"""


def listener(host: str, port: int) -> socket.socket:
    """A socket that listens, whose connections send each answer at once. Raises OSError where the address is taken.

    Without TCP_NODELAY, the body of an answer waits until the client acknowledges its head: 40 ms in
    Linux. asyncio sets it on sockets that name their protocol, as those of `create_server` do not.
    """
    listening = socket.create_server((host, port), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a connection inherits it
    return listening


def serve(
    directory: Path, host: str, port: int, token_file: Path | None, say: Callable[[str], None]
) -> None:
    """Serve until it is told to end. say: takes the text that tells how to call it, once it can be called.

    token_file: with the token of the role `forget`. Raises LockedMemoryError where the model is served or written
    already, OSError where the address is taken, ValueError for a token that can be guessed or that two roles have.
    """
    tokens, printed = {}, {}  # printed is where a shell finds what the user has
    for role, variable in VARIABLES.items():
        file = token_file if role == "forget" else None
        if (text := given_text(file) if file else os.environ.get(variable)) is None:
            continue
        tokens[role], printed[role] = (
            text.strip(),
            f"$(cat {shlex.quote(str(file))})" if file else f"${variable}",
        )
        if len(tokens[role]) < SHORTEST or not tokens[role].isascii():
            raise ValueError(
                f"{file or variable}: a token must have {SHORTEST} characters or more, all of them ASCII"
            )
    if len(set(tokens.values())) < len(tokens):
        raise ValueError(f"each role needs a token of its own: {', '.join(tokens)}")
    if "forget" not in tokens:
        tokens["forget"] = printed["forget"] = secrets.token_urlsafe(32)
    with (
        Predictor.load(directory, writer=True) as predictor,
        listener(host, port) as listening,
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
        ask = OF_ROWS if predictor.manifest.stored is None else OF_PICTURES
        say(
            HOW_TO.format(
                directory=directory, url=url, ask=ask.format(url=url, **headers), **headers
            )
        )
        uvicorn.Server(config).run(sockets=[listening])
