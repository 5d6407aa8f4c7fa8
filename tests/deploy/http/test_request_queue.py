"""Who is served when."""

import asyncio
import io
import threading
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from PIL import Image

from munkey.deploy.http import request_queue
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.http.service import make_verify_router
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import LockedMemoryError

STORED = PictureSize(height=1, width=1)


class Slow:
    """A predictor whose predictions wait until the test lets them go. done: what it did, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go, self.deletions, self.readers, self.foreign = threading.Semaphore(0), 0, 0, ()
        self.manifest, self.directory = SimpleNamespace(stored=STORED), None

    def predict(self, images, *, only_held_classes):
        self.go.acquire()
        self.done.append(f"predict {images[0, 0, 0, 0]}")

    def forget(self, ids):
        self.done.append(f"forget {ids}")
        return {"deleted": len(ids)}

    def settle(self):
        self.done.append("settle")

    def purge(self):
        if self.readers:
            self.readers -= 1
            raise LockedMemoryError("a reader is in the way")
        self.done.append("purge")
        return self.foreign


def picture(number: int) -> list[bytes]:
    file = io.BytesIO()
    Image.new("RGB", (1, 1), (number, number, number)).save(file, "PNG")
    return [file.getvalue()]


async def here() -> bool:
    return False


def forget_7(model):
    return model.forget([7])


def test_predictions_take_turns_and_a_deletion_waits_for_one_at_most():
    async def work() -> None:
        asked = [asyncio.create_task(served.predict(picture(number), here)) for number in range(4)]
        async with asyncio.timeout(60):  # until the first one's picture is decoded
            while not served._model_lock.locked():
                await asyncio.sleep(0.005)
        asked.append(asyncio.create_task(served.delete(forget_7)))
        await asyncio.sleep(0)
        slow.go.release(4)
        await asyncio.gather(*asked)

    slow = Slow()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(work())
    assert [one for one in slow.done if one != "forget [7]"] == [
        f"predict {number}" for number in range(4)
    ]
    assert slow.done.index("forget [7]") == 1


def test_a_deletion_does_not_wait_for_a_picture_that_is_decoded(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        asked = asyncio.create_task(served.predict(picture(0), here))
        await asyncio.sleep(0)
        await served.delete(forget_7)
        decoded.set()
        await asked

    slow, decoded = Slow(), threading.Event()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    slow.go.release()
    decode = request_queue.decode_pictures
    monkeypatch.setattr(
        request_queue, "decode_pictures", lambda *given: decoded.wait(60) and decode(*given)
    )
    asyncio.run(asyncio.wait_for(work(), 30))
    assert slow.done == ["forget [7]", "predict 0"]


def test_neither_predictions_nor_deletions_wait_for_a_check(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        checking = asyncio.create_task(served.run_with_reader(lambda model: checked.wait(60)))
        slow.go.release()
        await served.predict(picture(0), here)
        await served.delete(forget_7)
        assert not checking.done()
        checked.set()
        await checking

    slow, checked = Slow(), threading.Event()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    monkeypatch.setattr(Predictor, "load", lambda directory: nullcontext(slow))
    asyncio.run(work())
    assert slow.done == ["predict 0", "forget [7]"]


def test_a_check_does_all_of_its_work_beside_the_event_loop(
    predictor, monkeypatch: pytest.MonkeyPatch
):
    threads, verify = [], Predictor.verify
    monkeypatch.setattr(
        Predictor, "verify", lambda *of: (threads.append(threading.get_ident()), verify(*of))[1]
    )
    router = make_verify_router(
        RequestQueue(predictor, RequestLimits(predictions=1)), Counter(), RequestLimits()
    )
    endpoints = {route.path: route.endpoint for route in router.routes}
    answer = asyncio.run(endpoints["/verify"](None))
    assert answer["sound"]
    assert threads and threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("idle", "latest"), [(0.1, 60), (60, 0.1)], ids=["nobody asks", "in any case"]
)
def test_what_is_deleted_is_settled_and_purged_once_when_there_is_time(
    idle, latest, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        maintaining = asyncio.create_task(served.maintain())
        await asyncio.sleep(0.05)
        assert slow.done == [] and not served.unpurged
        await served.delete(forget_7)
        assert served.unpurged and served.purged_at is None
        while "purge" not in slow.done:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        maintaining.cancel()

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_IDLE_S", idle)
    monkeypatch.setattr(request_queue, "PURGE_LATEST_S", latest)
    slow = Slow()
    slow.readers = 2  # in the way of the first two attempts
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", "settle", "purge"]
    assert not served.unpurged and served.purged_at is not None


def test_nothing_is_purged_soon_after_a_request(monkeypatch: pytest.MonkeyPatch):
    async def work() -> None:
        maintaining = asyncio.create_task(served.maintain())
        await served.delete(forget_7)
        while "settle" not in slow.done:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        maintaining.cancel()

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    slow = Slow()
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 60))
    assert slow.done == ["forget [7]", "settle"] and served.unpurged


def test_an_earlier_process_may_have_left_something_to_purge():
    slow = Slow()
    slow.deletions = 1
    assert RequestQueue(slow, RequestLimits(predictions=4)).unpurged


def test_the_latest_purge_counts_from_the_first_deletion_and_foreign_files_are_no_purge(
    monkeypatch: pytest.MonkeyPatch,
):
    async def work() -> None:
        maintaining = asyncio.create_task(served.maintain())
        while "purge" not in slow.done:
            await served.delete(forget_7)
            await asyncio.sleep(0.02)
        slow.done.clear()
        await served.purge()
        await asyncio.sleep(0.3)
        maintaining.cancel()

    monkeypatch.setattr(request_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(request_queue, "PURGE_LATEST_S", 0.2)
    slow = Slow()
    slow.foreign = ("memory/keys.bak",)
    served = RequestQueue(slow, RequestLimits(predictions=4))
    asyncio.run(asyncio.wait_for(work(), 10))
    assert slow.done.count("purge") == 1
    assert served.describe_purge() == {"purged": False, "purged_at": None, "foreign": slow.foreign}


def test_what_fails_after_a_deletion_is_purged_too():
    def fails(model):
        raise ValueError("damaged")

    served = RequestQueue(Slow(), RequestLimits(predictions=4))
    with pytest.raises(ValueError, match="damaged"):
        asyncio.run(served.delete(fails))
    assert served.unpurged
