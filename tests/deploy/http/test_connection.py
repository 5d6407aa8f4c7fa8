"""A connection that does not ask in time is closed, and no other one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from munkey.deploy.http import connection
from munkey.deploy.http.connection import Punctual

PATIENCE_S = 0.5
ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", PATIENCE_S)


async def slow(_, __, send):
    """An application that answers when nobody would wait for a request any more."""
    await asyncio.sleep(2 * PATIENCE_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"done"})


def connected(client: Client) -> None:
    """Let a client do its work over a socket."""

    async def work() -> None:
        config = uvicorn.Config(slow, log_config=None)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Punctual(config, ServerState(), {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await asyncio.wait_for(client(reader, writer), 4.5)  # uvicorn itself closes after 5 s, or never
            writer.close()

    asyncio.run(work())


@pytest.mark.parametrize("sent", [b"", ASKED[:-2]], ids=["silent", "half a head"])
def test_one_that_never_asks_is_closed(sent):
    async def client(reader, writer):
        writer.write(sent)
        assert await reader.read() == b""

    connected(client)


@pytest.mark.parametrize("more", [b"", ASKED[:-2]], ids=["silent", "half a head"])
def test_one_that_asked_is_answered_and_closed_if_it_does_not_ask_again(more):
    async def client(reader, writer):
        writer.write(ASKED)
        assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")
        writer.write(more)
        assert await reader.read() == b""

    connected(client)


def test_one_that_asks_ahead_is_answered_twice():
    async def client(reader, writer):
        writer.write(2 * ASKED)
        for _ in range(2):
            assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")

    connected(client)
