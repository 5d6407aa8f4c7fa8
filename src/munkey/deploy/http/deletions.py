"""What /forget and /certificate/check do: the same as the commands `forget` and `certificate`."""

import secrets
from contextlib import suppress

import numpy as np

from munkey.deploy import certificate as certificates
from munkey.deploy import json_answers
from munkey.deploy.http.bodies import Check, Order
from munkey.deploy.json_answers import Json
from munkey.deploy.model.manifest import self_digest
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError

NAMED = 10  # of what is unknown


def carry_out(model: Predictor, order: Order) -> Json:
    """Forget, or say what would be forgotten."""
    names = order.model_dump(include={"ids", "files", "units", "ignore_missing", "request"})
    selection = model.select(labels=order.classes, **names)
    answer: Json = {"missing": selection.missing[:NAMED], "missing_count": len(selection.missing)}
    ids, store, held = selection.ids, model.store, model.ids
    if order.dry_run:
        twins = store.view.ids[store.twins_of(store.rows_of(ids))]
        if order.also_identical:
            ids, twins = np.union1d(ids, twins), twins[:0]
        answer |= {"request": order.request, "would_delete": ids.tolist(), "classes": model.select(ids=ids).classes}
        return answer | {"identical": sorted(twins.tolist()), "left": len(held) - len(ids)}
    before, how = certificates.snapshot(store), order.model_dump(include={"request", "also_identical", "block_return"})
    receipt = model.forget(ids, **how)
    answer |= json_answers.forgotten(receipt) | {"left": len(model.ids)}
    return answer | (_certified(model, receipt, before, held) if order.certificate else {})


def _certified(model: Predictor, receipt: Receipt, before: certificates.MemorySnapshot, held: np.ndarray) -> Json:
    """Purge and certify. held: ids before the deletion. Whatever fails, the answer says that the deletion is done."""
    if receipt.repeated or not receipt.sequences:
        return {"certificate": None}
    purged, salt, ids = False, secrets.token_bytes(16), np.setdiff1d(held, model.ids).tolist()
    try:
        with suppress(LockedMemoryError):  # a reader is in the way
            model.purge()
            purged = True
        made = certificates.naming(certificates.certify(model.store, receipt, before, purged=purged), ids, salt)
    except (OSError, ClosedMemoryError) as error:
        return {"certificate": None, "error": f"forgotten, but not purged or certified: {error}"}
    return {"purged": purged, "certificate": made.model_dump(mode="json"), "salt": salt.hex()}


def checked(model: Predictor, check: Check) -> Json:
    """Whether the memory holds what a certificate says, and which of its fields nothing confirms."""
    made = check.certificate
    faults = certificates.faults(made, model.store)
    if made.sha256 != self_digest(made):
        faults.insert(0, "it was changed after it was written: its SHA-256 is not the one in it")
    if check.salt is not None and made.ids_sha256 != certificates.salted(check.ids, bytes.fromhex(check.salt)):
        faults.append("it was not made for these ids with this salt")
    return {"sound": not faults, "faults": faults, "unconfirmed": certificates.unconfirmed(made)}
