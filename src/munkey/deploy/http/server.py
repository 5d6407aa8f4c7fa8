"""Run the HTTP service: its socket, its tokens, and usage examples."""

import logging
import os
import secrets
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from munkey.core.files import read_user_text
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.connections import LimitedConnection, OncePerMinute
from munkey.deploy.http.roles import ROLES
from munkey.deploy.http.service import create_app
from munkey.deploy.predictor import Predictor

# Environment variables with the token of each role.
VARIABLES = {role: f"MUNKEY_{role.upper()}_TOKEN" for role in ROLES} | {"forget": "MUNKEY_TOKEN"}
MIN_TOKEN_LENGTH = 16  # characters
# asyncio accepts up to this many connections at once, before any of them can be closed again.
BACKLOG = 128
GRACE_S = 30  # seconds in which running requests may finish after the service is stopped

PICTURE_EXAMPLES = """\
  curl -H 'Content-Type: image/png' {predict}--data-binary @PICTURE.png {url}/predict
  printf '{{"images": ["%s"], "explain": true}}' "$(base64 < PICTURE.png | tr -d '\\n')" |
    curl -H 'Content-Type: application/json' {verify}--data-binary @- {url}/predict"""
ROW_EXAMPLES = """\
  curl -H 'Content-Type: application/json' {predict}-d '{{"rows": [[0.1, 0.2, …]]}}' {url}/predict"""
HOW_TO = """\
munkey serves {directory} at {url}, and ends with Ctrl-C. Call it like this:

  curl {url}/health
{predict_examples}
  curl -H 'Content-Type: application/json' {forget}\\
    -d '{{"ids": [1, 2, 3], "dry_run": true}}' {url}/forget
  curl {verify}'{url}/rows?limit=10'
  curl {verify}{url}/verify
"""


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket whose connections send each response immediately.

    Without TCP_NODELAY, the body of a response waits until the client acknowledges the headers: 40
    ms on Linux. asyncio sets this option only on sockets with an explicit protocol, and
    `create_server` creates one without. Raises OSError if the address is taken.
    """
    listener = socket.create_server((host, port), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    return listener


def read_tokens(token_file: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    """Read the token of each role that has one; if `forget` has none, generate it.

    token_file: has the token of `forget`, instead of the environment. Returns the tokens and the
    shell expression for each token, both by role. Raises ValueError for a token that is too short or
    not ASCII, or that two roles share.
    """
    tokens: dict[str, str] = {}
    shell_expressions: dict[str, str] = {}
    for role, variable in VARIABLES.items():
        if role == "forget" and token_file:
            origin = str(token_file)
            tokens[role] = read_user_text(token_file).strip()
            shell_expressions[role] = f"$(cat {shlex.quote(origin)})"
        elif variable in os.environ:
            origin = variable
            tokens[role] = os.environ[variable].strip()
            shell_expressions[role] = f"${variable}"
        else:
            continue
        if len(tokens[role]) < MIN_TOKEN_LENGTH or not tokens[role].isascii():
            raise ValueError(
                f"{origin}: a token must have {MIN_TOKEN_LENGTH} characters or more, all of them ASCII"
            )
    if len(set(tokens.values())) < len(tokens):
        raise ValueError(f"each role needs its own token: {', '.join(tokens)}")
    if "forget" not in tokens:
        tokens["forget"] = secrets.token_urlsafe(32)
        shell_expressions["forget"] = tokens["forget"]
    return tokens, shell_expressions


def configure(app: FastAPI) -> uvicorn.Config:
    """Configure the server, with limits for clients that are many, slow, or silent."""
    config = uvicorn.Config(
        app,
        http=LimitedConnection,
        ws="none",
        backlog=BACKLOG,
        log_level="warning",
        timeout_graceful_shutdown=GRACE_S,
    )
    once_per_minute = OncePerMinute()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(once_per_minute)
    return config


def serve(
    directory: Path,
    host: str,
    port: int,
    token_file: Path | None,
    purge_within: float,
    say: Callable[[str], None],
) -> None:
    """Serve a model until the process is stopped.

    purge_within: seconds after a deletion within which the service purges. say: is called with usage
    examples. Raises OSError if the address is taken, and ValueError as `read_tokens` does.
    """
    tokens, shell_expressions = read_tokens(token_file)
    with (
        Predictor.load(directory) as predictor,
        open_listener(host, port) as listener,
    ):
        predictor.warm_up()
        config = configure(create_app(predictor, tokens, RequestLimits(), purge_within))
        url = f"http://{host}:{listener.getsockname()[1]}"
        headers = {}
        for role, expression in shell_expressions.items():
            headers[role] = f'-H "Authorization: Bearer {expression}" '
        # Without their own tokens, `predict` is open, and `verify` needs the token of `forget`.
        headers.setdefault("predict", "")
        headers.setdefault("verify", headers["forget"])
        if predictor.manifest.stored is None:
            examples = ROW_EXAMPLES
        else:
            examples = PICTURE_EXAMPLES
        predict_examples = examples.format(url=url, **headers)
        say(
            HOW_TO.format(
                directory=directory, url=url, predict_examples=predict_examples, **headers
            )
        )
        uvicorn.Server(config).run(sockets=[listener])
