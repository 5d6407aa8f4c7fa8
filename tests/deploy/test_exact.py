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
    ("false_fields", "message"),
    [
        ({"live": "39"}, "are for 39 rows"),
        ({"live": "37"}, "are for 37 rows"),
        ({"live": "0"}, "are for 0 rows"),
        ({"live": "many"}, "are for many rows"),
        ({"head": "0" * 64}, "a head that is not in the chain"),
    ],
    ids=str,
)
def test_digests_of_rows_that_the_memory_never_held_fail_the_check(false_fields, message, folder):
    """Sealed anew, they passed as made before rows came or went."""
    issued, path, _ = certify_deletion(folder)
    path.unlink()
    path.with_suffix(".html").unlink()
    write_certificate(issued.model_copy(update={"exact": issued.exact | false_fields}).seal(), path)
    code, output = check_certificate(folder, path)
    assert code == 1
    assert message in output


def test_digests_of_earlier_rows_are_not_compared(folder):
    _, path, _ = certify_deletion(folder)
    with Predictor.load(folder) as model:
        model.add(ROWS[:3], [0, 1, 2])
    for gone in (7, 8):
        code, output = check_certificate(folder, path)
        assert not code
        assert "exact" in json.loads(output)["unconfirmed"]
        assert EXACTNESS not in output
        with Predictor.load(folder) as model:
            model.forget([gone])


EXACTNESS = "equals, bit for bit, what the remaining rows give"


def certify_deletion(folder, tamper=None):
    """The certificate of a deletion, its file, and whether the predictor is sound. tamper: changes the predictor."""
    with Predictor.load(folder) as model:
        model.predict(ROWS)
        delivered = []
        order = CertificateOrder({None: bytes(16)}, lambda _, issued: delivered.append(issued))
        if tamper:
            tamper(model)
        model.delete(DeletionRequest({None: [{"ids": [4, 5]}]}), certificates=order)
        [issued] = delivered
        sound = model.verify().sound
    path = folder.parent / "proof.json"
    write_certificate(issued, path)
    return issued, path, sound


def check_certificate(folder, path):
    """The exit code and the output of `munkey certificate --check`."""
    done = CliRunner().invoke(app, ["certificate", str(folder), str(path), "--check", "--json"])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_the_digests_of_a_certificate_equal_those_of_a_fit_to_the_remaining_rows(folder):
    issued, path, sound = certify_deletion(folder)
    never = folder.parent / "never"
    kind = EXACT[Predictor.load(folder).manifest.family]
    kind().fit(np.delete(ROWS, [4, 5], axis=0), np.delete(LABELS, [4, 5])).save(never)
    with Predictor.load(never) as model:
        other = model.digests()
    assert issued.exact | {"head": None} == other | {"head": None}
    code, output = check_certificate(folder, path)
    assert sound
    assert not code
    assert "exact" not in json.loads(output)["unconfirmed"]
    assert EXACTNESS in output
    with Predictor.load(folder) as model:
        model.forget([6])
    code, output = check_certificate(folder, path)
    # its rows are not all there any more
    assert not code
    assert "exact" in json.loads(output)["unconfirmed"]
    assert EXACTNESS not in output


def keep_a_row_in_the_sums(model):
    """As if the sums had missed one of the deleted rows."""
    sums = model._model.fitted_model.sums
    delete = model._deletions.delete_samples

    def delete_but_keep_one(*arguments, **keywords):
        deletion = delete(*arguments, **keywords)
        memory = model._model.snapshot().memory
        with sums.follow(memory, 3) as followed:
            followed.add(ROWS[:1].astype(np.float32), LABELS[:1])
        return deletion

    model._deletions.delete_samples = delete_but_keep_one


with_sums = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not ForgettingKNN])


@with_sums
def test_a_row_that_is_kept_in_the_sums_is_found(kind, tmp_path):
    kind().fit(ROWS, LABELS).save(tmp_path / "model")
    _, path, sound = certify_deletion(tmp_path / "model", keep_a_row_in_the_sums)
    code, output = check_certificate(tmp_path / "model", path)
    assert not sound
    assert code
    assert "different sums:" in output


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
    issued, _, _ = certify_deletion(folder)
    earlier = issued.model_copy(update={"exact": {**issued.exact, "weights": "0" * 64}}).seal()
    with Predictor.load(folder) as model:
        exact = model.digests(recompute=True)
        assert model.find_certificate_faults(earlier, exact=exact) == []


def test_an_emptied_model_refuses_to_answer_until_samples_come(folder):
    with Predictor.load(folder) as model, Predictor.load(folder) as reader:
        model.predict(ROWS)
        model.forget(model.ids)
        for emptied in (model, reader):
            with pytest.raises(EmptyModelError, match="add samples first"):
                emptied.predict(ROWS)
        model.add(ROWS[:6], list("012012"))
        assert model.predict(ROWS[:6]).classes == tuple("012012")


@with_sums
def test_sums_follow_to_an_older_snapshot_with_fewer_classes(kind, tmp_path):
    folder = tmp_path / "model"
    model = kind().fit(ROWS, LABELS)
    model.save(folder)
    with Predictor.load(folder) as predictor:
        sums = predictor._model.fitted_model.sums
        older = predictor._model.snapshot().memory
        with sums.follow(older, 3) as followed:
            expected = followed.counts.copy()
        model.add(ROWS[:2], np.array([7, 7]), ids=[900, 901])
        newer = predictor._model.snapshot().memory
        with sums.follow(newer, 4) as followed:
            assert followed.counts.tolist() == [*expected, 2]
        with sums.follow(older, 3) as followed:
            assert followed.counts.tolist() == expected.tolist()
