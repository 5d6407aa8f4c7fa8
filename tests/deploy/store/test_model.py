"""Any sequence of operations leaves a durable memory as a dictionary would be."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from munkey.deploy.store.errors import UnknownIdsError
from munkey.deploy.store.store import Store
from tests.conftest import SHARED
from tests.deploy.store.inputs import content, create, expected, raw


class Model(RuleBasedStateMachine):
    """A memory, a reader that was open from the start, and a dictionary that must say the same."""

    def __init__(self):
        super().__init__()
        self.root = tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None)
        self.folder = Path(self.root.name) / "memory"
        self.store, self.seed = create(self.folder, 3), 3
        self.reader = Store.open(self.folder)
        self.model = content(self.store)
        self.heads = [self.store.head]

    @rule(count=st.integers(0, 4), again=st.booleans())
    def add(self, count, again):
        self.seed += 1
        ids, keys, tokens = raw(count, 0 if again else self.seed)  # seed 0: ids of before
        new = np.array([i not in self.model for i in ids.tolist()], dtype=bool)
        self.store.add(ids[new], keys[new], tokens[new])
        self.model |= expected(ids[new], keys[new], tokens[new])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data):
        ids = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1))
        receipt = self.store.delete(sorted(ids))
        assert receipt.before == self.heads[-1]
        self.heads.append(receipt.after)
        for i in ids:
            del self.model[i]

    @rule(unknown=st.integers(0, 9))
    def delete_unknown(self, unknown):
        with pytest.raises(UnknownIdsError):
            self.store.delete([unknown, *self.model])

    @rule()
    def purge(self):
        self.store.purge()

    @rule()
    def compact(self):
        self.store.compact()
        assert self.store.view.live.all()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = Store.open(self.folder, writer=True)

    @rule(published=st.data())
    def verify(self, published):
        head = published.draw(st.sampled_from(self.heads))
        for store in (self.store, self.reader):
            report = store.verify(head)
            assert report.sound and report.live == len(self.model) and report.head == self.heads[-1]
        assert not self.store.verify("0" * 64).sound

    @invariant()
    def all_say_the_same(self):
        assert content(self.store) == content(self.reader) == self.model

    def teardown(self):
        self.store.close()
        self.reader.close()
        self.root.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=20, stateful_step_count=20)
