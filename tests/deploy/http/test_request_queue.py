"""Who is served when."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from munkey.deploy.http import request_queue
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.http.service import make_verify_router
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import LockedMemoryError, UnreadableMemoryError
from tests.deploy.inputs import png_of

STORED = PictureSize(height=1, width=1)


class Slow:
    """A predictor whose predictions wait until the test lets them go. done: its actions, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go = threading.Semaphore(0)
        self.readers = 0
        self.foreign_files = ()
        self.manifest = SimpleNamespace(stored=STORED)
        self.is_purge_due = False
        self.purged_at = None

    def predict(self, images, *, only_held_classes):
        self.go.acquire()
        self.done.append(f"predict {images[0, 0, 0, 0]}")

    def forget(self, ids):
        self.done.append(f"forget {ids}")
        self.is_purge_due = True
        return {"deleted": len(ids)}

    def empty_log(self):
        self.done.append("empty log")
        return True

    def purge(self, wait):
        if self.readers:
            self.readers -= 1
            raise [LockedMemoryError("a reader is in the way"), OSError("full")][self.readers % 2]
        self.done.append("purge")
        self.is_purge_due = False
        self.purged_at = "2026-11-29T08:00:00.000000+00:00"
        return self.foreign_files


def picture(number: int) -> list[bytes]:
    """A picture of one pixel, whose color is the number."""
    return [png_of(Image.new("RGB", (1, 1), (number, number, number)))]


async def here() -> bool:
    return False


def forget_7(model):
    return model.forget([7])


@asynccontextmanager
async def upkeep(served: RequestQueue) -> AsyncIterator[None]:
    """Purges run in the background until the end of the block."""
    stopping = asyncio.Event()
    task = asyncio.create_task(served.maintain(stopping))
    yield
    stopping.set()
    await task


def test_predictions_take_turns_and_no_deletion_waits_for_one():
    async def work() -> None:
        predictions = [
            asyncio.create_task(served.predict(picture(number), here)) for number in range(4)
        ]
        await asyncio.sleep(0)
        await served.delete(forget_7)
        slow.go.release(4)
        await asyncio.gather(*predictions)

    slow = Slow()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", *(f"predict {number}" for number in range(4))]


@pytest.mark.parametrize("change", ["forget", "purge"])
def test_predictions_continue_during_a_deletion_and_a_purge(
    change, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        changing = asyncio.create_task(
            served.purge() if change == "purge" else served.delete(forget_7)
        )
        await asyncio.sleep(0)
        await served.predict(picture(0), here)
        assert not changing.done()
        go.set()
        await changing

    slow = Slow()
    go = threading.Event()
    slow.go.release()
    change_rows = getattr(slow, change)

    def wait_and_change(*arguments):
        go.wait(60)
        return change_rows(*arguments)

    monkeypatch.setattr(slow, change, wait_and_change)
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["predict 0", {"forget": "forget [7]", "purge": "purge"}[change]]


def test_neither_predictions_nor_deletions_wait_for_a_check():
    async def work() -> None:
        checking = asyncio.create_task(served.check(lambda model: checked.wait(60)))
        slow.go.release()
        await served.predict(picture(0), here)
        await served.delete(forget_7)
        assert not checking.done()
        checked.set()
        await checking

    slow = Slow()
    checked = threading.Event()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(work())
    assert slow.done == ["predict 0", "forget [7]"]


def test_a_check_runs_outside_the_event_loop(predictor, monkeypatch: pytest.MonkeyPatch):
    threads = []
    verify = Predictor.verify

    def verify_and_note_thread(*arguments):
        threads.append(threading.get_ident())
        return verify(*arguments)

    monkeypatch.setattr(Predictor, "verify", verify_and_note_thread)
    router = make_verify_router(
        RequestQueue(predictor, RequestLimits(predictions=1)), Counter(), RequestLimits()
    )
    endpoints = {route.path: route.endpoint for route in router.routes}
    answer = asyncio.run(endpoints["/verify"](None))
    assert answer["sound"]
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(("idle", "latest"), [(0.1, 60), (60, 0.1)], ids=["idle", "busy"])
def test_a_deletion_is_purged_once_when_the_service_is_idle_or_at_the_latest_time(
    idle, latest, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        async with upkeep(served):
            await asyncio.sleep(0.05)
            assert slow.done == []
            assert served.describe_purge()["purged"]
            answer = await served.delete(forget_7)
            assert answer == {"deleted": 1, "purged": False, "purged_at": None}
            while "purge" not in slow.done:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_IDLE_S", idle)
    slow = Slow()
    slow.readers = 2  # a reader and a full disk are in the way of the first two attempts
    served = RequestQueue(slow, RequestLimits(predictions=4), purge_within=latest)
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", "empty log", "purge"]
    assert served.describe_purge() == {"purged": True, "purged_at": slow.purged_at}


def test_no_purge_starts_soon_after_a_request(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        async with upkeep(served):
            await served.delete(forget_7)
            while "empty log" not in slow.done:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    slow = Slow()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", "empty log"]
    assert slow.is_purge_due


def test_a_purge_that_another_process_left_is_reported_and_done(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        async with upkeep(served):
            await asyncio.sleep(0.05)
            slow.is_purge_due = True  # as after `munkey forget --no-purge`
            assert not served.describe_purge()["purged"]
            while not slow.done:
                await asyncio.sleep(0.01)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_IDLE_S", 0.1)
    slow = Slow()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["purge"]


def test_the_latest_time_counts_from_the_first_deletion_and_foreign_files_are_reported(
    monkeypatch: pytest.MonkeyPatch,
):
    async def work() -> None:
        async with upkeep(served):
            while "purge" not in slow.done:
                await served.delete(forget_7)
                await asyncio.sleep(0.02)
            slow.done.clear()
            await served.purge()
            await asyncio.sleep(0.3)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    slow = Slow()
    slow.foreign_files = ("memory.db.bak",)
    served = RequestQueue(slow, RequestLimits(predictions=4), purge_within=0.2)
    asyncio.run(asyncio.wait_for(work(), 10))
    assert slow.done.count("purge") == 1
    foreign = slow.foreign_files
    assert served.describe_purge() == {"purged": False, "purged_at": None, "foreign": foreign}


def test_a_reader_that_prevents_a_purge_is_an_error_once_it_is_overdue(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    class Blocked(Slow):
        attempts = 0
        is_blocked = True

        def purge(self, wait):
            self.attempts += 1
            if self.is_blocked:
                raise LockedMemoryError("a reader keeps the log")
            return super().purge(wait)

    async def work() -> None:
        async with upkeep(served):
            await served.delete(forget_7)
            while not blocked.attempts:
                await asyncio.sleep(0.01)
            assert served.maintenance_error is None  # there is time
            while served.maintenance_error is None:
                await asyncio.sleep(0.01)
            assert "a reader keeps the log" in served.maintenance_error
            blocked.is_blocked = False
            while served.maintenance_error:
                await asyncio.sleep(0.01)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_IDLE_S", 0.0)
    blocked = Blocked()
    served = RequestQueue(blocked, RequestLimits(predictions=4), purge_within=0.3)
    asyncio.run(asyncio.wait_for(work(), 60))
    assert "purge" in blocked.done
    [record] = [one for one in caplog.records if one.name == request_queue.__name__]
    assert "a reader keeps the log" in record.getMessage()


def test_a_purge_that_cannot_be_is_logged_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    class Damaged(Slow):
        is_damaged = True
        attempts = 0

        @property
        def is_purge_due(self):
            self.attempts += 1
            if self.is_damaged:
                raise UnreadableMemoryError(Path("memory.db"), "damaged")
            return True

        @is_purge_due.setter
        def is_purge_due(self, value):
            pass

    async def work() -> None:
        async with upkeep(served):
            while damaged.attempts < 3:
                await asyncio.sleep(0.01)
            assert "memory.db: damaged" in served.maintenance_error
            damaged.is_damaged = False  # an undamaged copy was put there
            while "purge" not in damaged.done:
                await asyncio.sleep(0.01)

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_IDLE_S", 0.0)
    damaged = Damaged()
    served = RequestQueue(damaged, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    [record] = [one for one in caplog.records if one.name == request_queue.__name__]
    assert record.levelname == "ERROR"
    assert "memory.db: damaged" in record.getMessage()
    assert served.maintenance_error is None
