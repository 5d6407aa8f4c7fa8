"""Limits for clients that are many, slow, or silent."""

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import HTTPException, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 512  # one more closes the connection that has been silent longest
MAX_REQUESTS = 448  # in progress, without those to forget, so that these always have a place
SILENCE_S = 5.0  # seconds in which the head of a connection's next request must arrive
UNREAD_S = 30.0  # seconds in which a client must read the part of a response that is buffered
LOG_S = 60.0  # seconds between two lines in the log that say the same
LOGGER = logging.getLogger("uvicorn.error")


class LimitedConnection(H11Protocol):
    """A connection of uvicorn that ends if its client sends no request, or reads no response.

    uvicorn itself waits for the first request forever, and for the next one as long as bytes arrive.
    """

    silent_since = 0.0
    _silence: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._silence, self._unread):
            if timer:
                timer.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    @property
    def is_silent(self) -> bool:
        """Whether the client has neither a request in progress nor reads its response."""
        in_progress = self.cycle is not None and not self.cycle.response_complete
        return not in_progress or self.flow.write_paused

    def _await_request(self) -> None:
        if self._silence:
            self._silence.cancel()
        self.silent_since = self.loop.time()
        self._silence = self.loop.call_later(SILENCE_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self.is_silent:
            self.transport.close()
            # `close` waits until the client has read what is buffered.
            self._silence = self.loop.call_later(UNREAD_S, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has been silent longest: this one, if no other is silent."""
        # A connection that was closed in this iteration of the event loop is still in `connections`.
        kept = [one for one in self.connections if not one.transport.is_closing()]
        if len(kept) > MAX_CONNECTIONS:
            LOGGER.warning("More than %d connections: closing silent ones.", MAX_CONNECTIONS)
            silent = [one for one in kept if isinstance(one, LimitedConnection) and one.is_silent]
            min(silent, key=lambda one: one.silent_since).transport.abort()


class RequestGate:
    """Middleware that limits the requests in progress, and answers HEAD wherever it answers GET.

    Parameters
    ----------
    refuse
        Converts an error to a response.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Request, Exception], Response]) -> None:
        self.app = app
        self.refuse = refuse
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/forget":
            await self.app(scope, receive, send)
            return
        if self.in_progress >= MAX_REQUESTS:
            detail = f"{MAX_REQUESTS} requests are in progress already; try again"
            error = HTTPException(503, detail, {"Retry-After": "1"})
            await self.refuse(Request(scope), error)(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn, which has the original, sends no body
        self.in_progress += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.in_progress -= 1


class OncePerMinute(logging.Filter):
    """Lets the same message pass once a minute, so that clients cannot fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        self._seen = {key: then for key, then in self._seen.items() if now - then < LOG_S}
        key = str(record.msg)
        if record.exc_info:
            key += repr(record.exc_info[1])
        is_new = key not in self._seen
        self._seen.setdefault(key, now)
        return is_new
