"""Who is served when."""

import asyncio
import json
import threading

import pytest

from munkey.deploy.http import request_queue
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.http.service import RequestLimits, application
from munkey.deploy.search.search import Search


class Slow:
    """A predictor whose predictions wait until the test lets them go. done: what it did, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go = threading.Semaphore(0)
        self.store = self

    def predict(self, pictures):
        self.go.acquire()
        self.done.append(f"predict {pictures}")

    def forget(self, ids, *, ignore_missing):
        self.done.append(f"forget {ids}")

    def settle(self):
        self.done.append("settle")


def test_predictions_take_turns_and_a_deletion_waits_for_one_at_most():
    async def work() -> None:
        asked = [asyncio.create_task(served.predict(number)) for number in range(4)]
        await asyncio.sleep(0)
        asked.append(asyncio.create_task(served.forget([7], ignore_missing=False)))
        await asyncio.sleep(0)
        slow.go.release(4)
        await asyncio.gather(*asked)

    slow = Slow()
    served = RequestQueue(slow)
    asyncio.run(work())
    assert [one for one in slow.done if one != "forget [7]"] == [f"predict {number}" for number in range(4)]
    assert slow.done.index("forget [7]") == 1


def test_neither_predictions_nor_deletions_wait_for_a_check(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        checking = asyncio.create_task(served.verify(None))
        slow.go.release()
        await served.predict(0)
        await served.forget([7], ignore_missing=False)
        assert not checking.done()
        checked.set()
        await checking

    slow, checked = Slow(), threading.Event()
    served = RequestQueue(slow)
    monkeypatch.setattr(served, "_verified", lambda published: checked.wait(60))
    asyncio.run(work())
    assert slow.done == ["predict 0", "forget [7]"]


def test_a_check_does_all_of_its_work_beside_the_event_loop(predictor, monkeypatch: pytest.MonkeyPatch):
    threads, described = [], Search.described
    monkeypatch.setattr(Search, "described", lambda of: (threads.append(threading.get_ident()), described(of))[1])
    endpoints = {route.path: route.endpoint for route in application(predictor, "", RequestLimits()).routes}
    answer = json.loads(asyncio.run(endpoints["/verify"](None)).body)
    assert answer["sound"] and answer["search"].startswith("exact: ")
    assert threads and threading.get_ident() not in threads


def test_zeros_are_waited_for_once_when_there_is_time(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        settling = asyncio.create_task(served.settle_when_idle())
        await asyncio.sleep(0.05)
        assert slow.done == []
        await served.forget([7], ignore_missing=False)
        while "settle" not in slow.done:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        settling.cancel()

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    slow = Slow()
    served = RequestQueue(slow)
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", "settle"]
