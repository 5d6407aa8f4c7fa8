"""Connections that must ask in time: one that never does would take the place of others forever."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from munkey.deploy.http.service import PATIENCE_S


class Punctual(H11Protocol):
    """Closes a connection on which the head of a request, the first or the next one, does not arrive in time.

    uvicorn alone closes one only if it is silent after an answer.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        self._expect_request()  # first: a request that is here already begins in the next line
        super().on_response_complete()

    def _expect_request(self) -> None:
        self.loop.call_later(PATIENCE_S, self._close_after, self.cycle)

    def _close_after(self, last: RequestResponseCycle | None) -> None:
        """Unless a request has come since the last one."""
        if self.cycle is last:
            self.timeout_keep_alive_handler()
