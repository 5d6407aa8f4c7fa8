"""A privacy officer's day over HTTP: list, preview, forget, prove, look into the log."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from munkey.deploy import deletions
from munkey.deploy.errors import PictureError
from munkey.deploy.http.bodies import ForgetRequest, RequestLimits
from munkey.deploy.http.service import delete_samples
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import UnreadableMemoryError
from munkey.memory.memory_file import MemoryFile
from tests.conftest import raise_full_disk
from tests.deploy.http.inputs import TOKENS, Answer, Running, running
from tests.deploy.inputs import CLASSES, IDS, model_in, picture_in

CAT, DOG = CLASSES[:2]
CATS = [int(one) for one in IDS if one % 3 == 0]
FIRST = 60  # id of the first added sample
ANNA = np.full((10, 10, 3), 7, np.uint8)


class Office(Running):
    """A service whose memory holds the samples IDS and two exact copies of a picture of Anna."""

    def forget(self, **order: object) -> Answer:
        return self.ask("POST", "/forget", order, "forget")

    def read(self, path: str) -> Answer:
        return self.ask("GET", path, role="verify")

    def list_ids(self) -> list[int]:
        """The ids of all samples in the memory."""
        return [row["id"] for row in self.read("/rows?limit=1000").json["samples"]]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Predictor]:
    with Predictor.load(model_in(tmp_path / "model"), device="cpu") as predictor:
        predictor.add([ANNA, ANNA], [CAT, CAT], units=["Anna", None])
        yield predictor


@pytest.fixture
def office(model: Predictor, tmp_path: Path) -> Iterator[Office]:
    with running(model, picture_in(tmp_path).read_bytes(), TOKENS, RequestLimits()) as one:
        one.go.set()
        yield Office(*one)


def test_rows_are_listed_by_class_unit_and_file_in_pages(office):
    everything = office.read("/rows").json
    assert [row["id"] for row in everything["samples"]] == [*IDS, FIRST, FIRST + 1]
    assert everything["total"] == 26
    assert everything["next"] is None
    [anna] = office.read("/rows?unit=Anna").json["samples"]
    assert anna["id"] == FIRST
    assert anna["class"] == CAT
    assert anna["file"] is None
    assert anna["added"].startswith("20")
    [file] = office.read("/rows?file=glob:pets/1*.png&class=cat&class=fish&after=13&limit=1").json[
        "samples"
    ]
    assert file["id"] == min(one for one in range(14, 20, 2) if one % 3 != 1)
    sizes = []
    page = {"next": -1}
    while page["next"] is not None:
        page = office.read(f"/rows?limit=10&after={page['next']}").json
        sizes.append(len(page["samples"]))
    assert sizes == [10, 10, 6]
    assert office.read("/rows?limit=100000").status == office.read("/rows?label=cat").status == 422


def test_a_preview_counts_classes_and_changes_nothing(office):
    order = {"classes": [DOG], "ids": [12], "dry_run": True}
    preview = office.ask("POST", "/forget", order, "verify").json
    dogs = [int(one) for one in IDS if one % 3 == 1]
    assert preview["would_delete"] == sorted([*dogs, 12])
    assert preview["classes"] == {CAT: 1, DOG: len(dogs)}
    assert preview["left"] == 26 - len(dogs) - 1
    person = office.forget(units=["Anna"], dry_run=True).json
    assert person["would_delete"] == [FIRST]
    assert person["identical"] == [FIRST + 1]
    also = office.forget(units=["Anna"], dry_run=True, also_identical=True).json
    assert also["would_delete"] == [FIRST, FIRST + 1]
    assert also["identical"] == []
    assert also["left"] == 24
    assert len(office.list_ids()) == 26
    assert office.metric("unpurged") == 0


def test_names_are_forgotten_together_or_not_at_all(office):
    refused = office.forget(ids=[10], files=["pets/12.png", "pets/13.png"])
    assert refused.status == 404
    assert refused.json["missing"] == ["pets/13.png"]
    unknown = office.forget(units=["Anna", "Bob"])
    assert unknown.status == 404
    assert unknown.json["missing"] == ["unit Bob"]
    ambiguous = office.forget(files=["pets/12.png"], units=["Anna"])
    assert ambiguous.status == 422
    assert "files and units together are ambiguous" in ambiguous.text
    assert len(office.list_ids()) == 26
    done = office.forget(ids=[10], files=["pets/12.png", "pets/13.png"], ignore_missing=True).json
    assert done["deleted"] == 2
    assert done["left"] == 24
    assert done["missing_count"] == 1
    emptied = office.forget(classes=[CAT]).json
    assert emptied["emptied"] == [CAT]
    assert emptied["deleted"] == len(CATS) - 1 + 2
    assert not {10, *CATS, FIRST, FIRST + 1} & set(office.list_ids())


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            {"files": [f"x/{one}.png" for one in range(1001)]},
            "files: List should have at most 1000",
        ),
        ({"units": ["x"] * 1001}, "units: List should have at most 1000"),
        ({"classes": ["x" * 1025]}, "classes.0: String should have at most 1024"),
        ({"files": ["[" * 1_000_000]}, "files.0: String should have at most 1024"),
        ({"files": ["glob:*.png"] * 33}, "33 patterns; a request may have 32"),
        ({"ids": [10], "request": "x" * 1025}, "request: String should have at most 1024"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_names_and_patterns_are_bounded_in_number_and_length(order, message, office):
    refused = office.forget(**order)
    assert refused.status == 422
    assert message in refused.json["error"]
    assert len(office.list_ids()) == 26


def test_as_many_names_and_patterns_as_the_limit_are_looked_up(office):
    names = [f"x/{one}.png" for one in range(1000 - 32)]
    refused = office.forget(files=[*names, *["glob:y/" + "*" * 1017] * 31, "glob:pets/12*"])
    assert refused.status == 404
    assert refused.json["missing_count"] == len(names) + 1
    assert office.read("/rows?" + "&".join(["file=glob:*"] * 33)).status == 422


@pytest.mark.parametrize("dry_run", [True, False])
def test_predictions_are_answered_while_names_are_looked_up(dry_run, office, monkeypatch):
    resolve = deletions.resolve_selectors
    begun = threading.Event()
    go = threading.Event()

    def slow(*selectors, **how):
        begun.set()
        assert go.wait(60)
        return resolve(*selectors, **how)

    monkeypatch.setattr(deletions, "resolve_selectors", slow)
    answers: list[Answer] = []
    asking = threading.Thread(
        target=lambda: answers.append(office.forget(ids=[10], dry_run=dry_run))
    )
    asking.start()
    assert begun.wait(60)
    assert office.ask("POST", "/predict", office.picture, "predict").status == 200
    go.set()
    asking.join()
    assert answers[0].status == 200
    assert (10 in office.list_ids()) is dry_run


def test_a_request_number_that_two_plans_share_is_used_once(model):
    order = ForgetRequest(ids=[10], request="DSR-1")
    other = ForgetRequest(ids=[12], request="DSR-1")
    plan = model.plan(order.to_deletion_request())
    plan_of_other = model.plan(other.to_deletion_request())
    assert delete_samples(model, order, plan)["deleted"] == 1
    assert delete_samples(model, order, plan)["repeated"]
    with pytest.raises(ValueError, match=r"'DSR-1' was carried out"):
        delete_samples(model, other, plan_of_other)


def test_samples_that_are_deleted_after_the_plan_are_no_fault(model):
    late = ForgetRequest(ids=[14])
    plan = model.plan(late.to_deletion_request())
    model.forget([14])
    answer = delete_samples(model, late, plan)
    assert answer["deleted"] == 0
    assert answer["found_nothing"]


def test_a_request_number_is_carried_out_once(office):
    first = office.forget(files=["pets/12.png"], request="DSR-1").json
    planned = office.forget(files=["pets/12.png"], request="DSR-1", dry_run=True).json
    again = office.forget(files=["pets/12.png"], request="DSR-1").json
    assert first["request"] == "DSR-1"
    assert first["repeated"] is False
    assert again["repeated"] is True
    assert again["head"] == first["head"]
    assert again["when"] == first["when"]
    assert len(office.list_ids()) == 25
    assert planned.items() >= (again | {"would_delete": [], "classes": {}}).items()
    assert again["missing"] == []
    assert again["purged"] is False
    office.ask("POST", "/purge", role="forget")
    nothing = office.forget(files=["pets/12.png"], request="DSR-2", ignore_missing=True).json
    assert nothing["deleted"] == 0
    assert nothing["purged"] is True
    assert nothing["found_nothing"]
    assert office.forget(files=["pets/12.png"], request="DSR-1").json["purged"]
    for dry_run in (True, False):
        other = office.forget(ids=[14], request="DSR-1", dry_run=dry_run)
        assert other.status == 422
        assert "DSR-1" in other.json["error"]
        assert 14 in office.list_ids()


def test_names_are_normalized_and_similar_ones_are_suggested(office):
    typed = "/rows?unit=%20Anna%20"
    [anna] = office.read(typed).json["samples"]
    assert office.forget(units=[" Anna "], dry_run=True).json["would_delete"] == [anna["id"]]
    for answer in (office.read("/rows?unit=ana"), office.forget(units=["ana"])):
        assert answer.status == 404
        assert "for 'ana': 'Anna'" in answer.json["error"]
        assert answer.json["missing"] == ["unit ana"]
    assert office.read("/rows?file=pets/999.png").status == 404
    for role in (None, "predict"):  # who may not list names hears of none
        for refused in (
            office.ask("POST", "/forget", {"units": ["ana"], "dry_run": True}, role),
            office.ask("GET", "/rows?unit=ana", role=role),
        ):
            assert refused.status in (401, 403)
            assert "Anna" not in refused.json["error"]


def test_a_request_that_found_nothing_is_not_recorded_as_carried_out(office):
    for options in ({"dry_run": True}, {}, {"certificate": True}):
        answer = office.forget(units=["Ana"], request="DSR-1", ignore_missing=True, **options)
        assert answer.status == 404
        assert answer.json["found_nothing"]
        assert not answer.json.get("repeated")
        assert answer.json["missing"] == ["unit Ana"]
        assert answer.json["missing_count"] == 1
        assert answer.json.get("certificate") is None
    assert office.read("/log").json["log"] == []
    assert office.forget(units=["Anna"], request="DSR-1").json["deleted"] == 1  # corrected


def test_exact_copies_are_named_forgotten_too_and_blocked(office, model):
    assert office.forget(ids=[FIRST]).json["identical"] == [FIRST + 1]
    model.add([ANNA], [CAT])
    office.forget(ids=[FIRST + 1], also_identical=True, block_return=True)
    assert not {FIRST + 1, FIRST + 2} & set(office.list_ids())
    with pytest.raises(PictureError, match="forgotten with block_return"):
        model.add([ANNA], [CAT])


@pytest.mark.parametrize(
    "order", [{}, {"request": "DSR-1"}, {"files": "pets/12.png"}, {"label": ["cat"]}], ids=str
)
def test_a_request_that_names_no_samples_is_refused(order, office):
    assert office.forget(**order).status == 422
    assert len(office.list_ids()) == 26


def test_a_certificate_is_made_and_checked(office):
    done = office.forget(ids=[12, 14], request="DSR-1", certificate=True).json
    certificate = done["certificate"]
    salt = done["salt"]
    assert done["purged"]
    assert certificate["purged_at"] == done["purged_at"]
    assert certificate["rows"] == 2
    assert certificate["request"] == "DSR-1"
    assert certificate["ids"] is None
    assert certificate["live"] == 24

    def check(**body: object) -> Answer:
        return office.ask("POST", "/certificate/check", body, "verify")

    sound = check(certificate=certificate, ids=[14, 12], salt=salt).json
    assert sound["sound"]
    assert sound["ids_checked"]
    assert (
        check(certificate=certificate, ids=[99]).status
        == check(certificate=certificate, salt=salt).status
        == 422
    )
    assert "ids_sha256" in check(certificate=certificate).json["unconfirmed"]
    assert check(certificate=certificate, ids=[12, 16], salt=salt).json["faults"] == [
        "it was not issued for these ids with this salt",
        "the memory holds samples of the given ids: 16",
    ]
    assert "was changed" in check(certificate=certificate | {"purged_at": None}).json["faults"][0]
    assert (
        check(certificate=certificate, ids=[12], salt="no").status
        == check(certificate={}).status
        == 422
    )
    later = office.read("/certificate?request=DSR-1").json
    assert later["first"] == 1
    assert later["rows"] == 2
    assert later["head"] == certificate["head"]
    assert check(certificate=later).json["sound"]
    assert later["ids_sha256"] is None
    for unknown in ("deletion=99", "request=DSR-2"):
        refused = office.read(f"/certificate?{unknown}")
        assert refused.status == 404
        assert "2 deleted samples" in refused.json["error"]
    assert office.read("/certificate?deletion=0").status == 422
    assert office.forget(ids=[12], request="DSR-1", certificate=True).json["certificate"] is None


def test_damage_after_a_deletion_does_not_hide_the_deletion(office, monkeypatch):
    def fails(self, wait):
        raise UnreadableMemoryError(Path("x"), "damaged")

    monkeypatch.setattr(MemoryFile, "purge", fails)
    done = office.forget(ids=[12], certificate=True)
    assert done.status == 200
    assert done.json["deleted"] == 1
    assert done.json["certificate"] is None
    assert "damaged" in done.json["error"]
    assert "Nothing was changed" not in done.json["error"]
    assert not done.json["purged"]
    assert 12 not in office.list_ids()
    assert len(done.json["salt"]) == 32


def test_a_purge_that_fails_after_a_deletion_is_reported_and_its_certificate_claims_none(
    office, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "purge", raise_full_disk)
        done = office.forget(ids=[12], certificate=True)
        assert done.status == 200
        assert done.json["deleted"] == 1
        assert done.json["purged"] is False
        assert "No space left" in done.json["unpurged"]
        assert 12 not in office.list_ids()
        assert done.json["certificate"]["purged_at"] is None
        assert office.ask("POST", "/purge", role="forget").status == 503
    assert office.ask("POST", "/purge", role="forget").json["purged"]
    assert office.read("/certificate").json["purged_at"]


def test_a_certificate_claims_no_purge_beside_a_foreign_file(office, model):
    foreign = model.directory / "memory.db.bak"
    foreign.write_bytes(b"keys")
    answer_to_forget = office.forget(ids=[12], certificate=True).json
    assert not answer_to_forget["purged"]
    assert answer_to_forget["certificate"]["purged_at"] is None
    answer = office.ask("POST", "/purge", role="forget").json
    assert answer == {"purged": False, "purged_at": None, "foreign": ["memory.db.bak"]}
    assert office.read("/certificate").json["purged_at"] is None
    assert office.metric("unpurged") == 1
    foreign.unlink()
    assert office.ask("POST", "/purge", role="forget").json["purged"]


def test_a_busy_memory_answers_503_and_changes_nothing(model, tmp_path):
    with (
        Predictor.load(model.directory, device="cpu", wait=0.1) as impatient,
        running(impatient, b"", TOKENS, RequestLimits()) as one,
    ):
        with model._file.hold_off_changes():
            for path, body in (("/forget", {"ids": [12]}), ("/purge", b"")):
                refused = one.ask("POST", path, body, "forget")
                assert refused.status == 503
                assert refused.headers["retry-after"] == "1"
                assert "nothing was changed" in refused.json["error"].lower()
            assert 12 in model.ids
        assert one.ask("POST", "/forget", {"ids": [12]}, "forget").json["deleted"] == 1


def test_a_deletion_and_a_purge_by_another_process_are_seen_at_once(office, model):
    """As `munkey forget` beside a running service does."""
    with Predictor.load(model.directory, device="cpu") as other:
        other.forget([12], request="DSR-9")
        assert 12 not in office.list_ids()
        assert office.metric("samples") == 25
        [prediction] = office.ask("POST", "/predict?explain=true", office.picture, "verify").json[
            "predictions"
        ]
        assert 12 not in [near["id"] for near in prediction["neighbors"]]
        assert office.read("/health").json["purged"] is False
        assert office.metric("unpurged") == 1
        assert office.forget(ids=[12], request="DSR-9").json["repeated"]
        other.purge()
        health = office.read("/health").json
        assert health["purged"] is True
        assert health["purged_at"] == other.purged_at


def test_the_log_has_requests_and_heads_and_no_ids(office):
    heads = []
    for number in range(3):
        answer = office.forget(ids=[10 + 2 * number], request=f"DSR-{number}")
        heads.append(answer.json["head"])
    log = office.read("/log").json
    assert log["purged"] is False
    for number, (entry, head) in enumerate(zip(log["log"], heads, strict=True)):
        assert entry["request"] == f"DSR-{number}"
        assert entry["deleted"] == 1
        assert entry["head"] == head
        assert entry.keys().isdisjoint({"id", "ids", "file"})


def test_classes_without_samples_have_probability_0_with_only_held_classes(office):
    office.forget(classes=CLASSES[:2])
    for path in ("/predict?only_held_classes=true", "/predict"):
        [answer] = office.ask("POST", path, office.picture, "predict").json["predictions"]
        assert (answer["probabilities"][CAT] == 0) == ("only" in path)
