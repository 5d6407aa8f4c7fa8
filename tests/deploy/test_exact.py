"""Certificates of families that delete exactly: anyone can recompute what answered from the rows that are left."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from munkey import ForgettingKNN, Predictor
from munkey.cli.app import app
from munkey.deploy.certificate import describe_unconfirmed_fields, write_certificate
from munkey.deploy.deletions import CertificateOrder, DeletionRequest
from munkey.deploy.errors import EmptyModelError
from tests.estimators.inputs import EXACT, KINDS

ROWS = np.random.default_rng(0).normal(size=(40, 6))
LABELS = np.arange(40) % 3


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    request.param().fit(ROWS, LABELS).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"live": "39"}, "are for 39 rows, but the memory never had that many at that head"),
        ({"live": "37"}, "are for 37 rows, but the memory never had that many at that head"),
        ({"live": "0"}, "are for 0 rows, but the memory never had that many at that head"),
        ({"live": "many"}, "are for many rows, but the memory never had that many at that head"),
        ({"head": "0" * 64}, "belong to a head that is not in the chain"),
    ],
    ids=str,
)
def test_digests_of_rows_that_the_memory_never_held_are_no_digests_of_another_day(
    lie, said, folder
):
    """Sealed anew, they passed as made before rows came or went."""
    made, path, _ = certified(folder)
    path.unlink()
    path.with_suffix(".html").unlink()
    write_certificate(made.model_copy(update={"exact": made.exact | lie}).seal(), path)
    code, output = checked(folder, path)
    assert code == 1 and said in output


def test_digests_from_before_rows_came_or_went_are_not_compared(folder):
    _, path, _ = certified(folder)
    with Predictor.load(folder) as model:
        model.add(ROWS[:3], [0, 1, 2])
    for gone in (7, 8):
        code, said = checked(folder, path)
        assert not code and "exact" in json.loads(said)["unconfirmed"]
        assert "they are not of the rows that the memory holds now" in said and WORDS not in said
        with Predictor.load(folder) as model:
            model.forget([gone])


WORDS = "equals, bit for bit, what the remaining rows give"


def certified(folder, tamper=None):
    """The certificate of a deletion by a process that had answered before; tamper: with its model."""
    with Predictor.load(folder) as model:
        model.predict(ROWS)
        delivered = []
        order = CertificateOrder({None: bytes(16)}, lambda _, made: delivered.append(made))
        if tamper:
            tamper(model)
        model.delete(DeletionRequest({None: [{"ids": [4, 5]}]}), certificates=order)
        [made] = delivered
        sound = model.verify().sound
    path = folder.parent / "proof.json"
    write_certificate(made, path)
    return made, path, sound


def checked(folder, path):
    done = CliRunner().invoke(app, ["certificate", str(folder), str(path), "--check", "--json"])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_what_answered_is_what_a_fit_to_the_rows_left_gives(folder):
    made, path, sound = certified(folder)
    never = folder.parent / "never"
    kind = EXACT[Predictor.load(folder).manifest.family]
    kind().fit(np.delete(ROWS, [4, 5], axis=0), np.delete(LABELS, [4, 5])).save(never)
    with Predictor.load(never) as model:
        other = model.digests()
    assert {one: made.exact[one] for one in made.exact if one != "head"} == {
        one: other[one] for one in other if one != "head"
    }
    code, said = checked(folder, path)
    assert sound and not code and "exact" not in json.loads(said)["unconfirmed"] and WORDS in said
    with Predictor.load(folder) as model:
        model.forget([6])
    code, said = checked(folder, path)
    # its rows are not all there any more
    assert not code and "exact" in json.loads(said)["unconfirmed"]
    assert WORDS not in said


def row_kept(model):
    """As if the sums had missed one of the deleted rows."""
    sums = model._model.fitted_model.sums
    delete = model._deletions.delete_samples

    def kept(*given, **named):
        deletion = delete(*given, **named)
        memory = model._model.snapshot().memory
        with sums.follow(memory, 3) as followed:
            followed.add(ROWS[:1].astype(np.float32), LABELS[:1])
        return deletion

    model._deletions.delete_samples = kept


with_sums = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not ForgettingKNN])


@with_sums
def test_a_row_that_is_kept_in_the_sums_is_found(kind, tmp_path):
    kind().fit(ROWS, LABELS).save(tmp_path / "model")
    _, path, sound = certified(tmp_path / "model", row_kept)
    code, said = checked(tmp_path / "model", path)
    assert not sound and code and "different sums:" in said


@with_sums
def test_an_altered_weight_is_found_by_the_process_that_has_it(kind, tmp_path):
    kind().fit(ROWS, LABELS).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.predict(ROWS)
        assert model.verify().sound
        biases_or_dual = list(model._model.fitted_model._solved_head.head.buffers())[1]
        biases_or_dual.view(-1)[0] += 1e-12
        assert not model.verify().sound


@with_sums
def test_a_certificate_holds_with_any_number_of_threads(kind, tmp_path):
    """The last bits of weights depend on it, and the rows are large enough here to show that."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(700, 300))
    kind().fit(rows, np.arange(700) % 5).save(tmp_path / "model")
    usual_count = torch.get_num_threads()
    weights = set()
    try:
        with Predictor.load(tmp_path / "model") as model:
            model.forget([4, 5])
            issued = model.certificate()
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            with Predictor.load(tmp_path / "model") as model:
                exact = model.digests(recompute=True)
                assert model.find_certificate_faults(issued, exact=exact) == []
                assert "exact" not in describe_unconfirmed_fields(issued, exact)
                head = model._model.fitted_model.solve_head(model._model.snapshot())
                weights.add(b"".join(buffer.numpy().tobytes() for buffer in head.buffers()))
    finally:
        torch.set_num_threads(usual_count)
    if kind.family == "lda":
        assert len(weights) > 1


def test_weights_in_an_earlier_certificate_are_not_compared(folder):
    made, _, _ = certified(folder)
    earlier = made.model_copy(update={"exact": {**made.exact, "weights": "0" * 64}}).seal()
    with Predictor.load(folder) as model:
        exact = model.digests(recompute=True)
        assert model.find_certificate_faults(earlier, exact=exact) == []


def test_an_emptied_model_refuses_to_answer_until_samples_come(folder):
    with Predictor.load(folder) as model, Predictor.load(folder) as reader:
        model.predict(ROWS)
        model.forget(model.ids)
        for one in (model, reader):
            with pytest.raises(
                EmptyModelError, match="so there is nothing to predict from; add samples first"
            ):
                one.predict(ROWS)
        model.add(ROWS[:6], list("012012"))
        assert model.predict(ROWS[:6]).classes == tuple("012012")
