"""A deployed directory that a predictor, the service, estimators and another process use in turn,
at random.
"""

import base64
import http.client
import json
import multiprocessing
import pickle
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import uvicorn

from munkey import MunkeyClassifier
from munkey.deploy.http.bodies import RequestLimits
from munkey.deploy.http.service import create_app
from munkey.deploy.model.prediction import softmax
from munkey.deploy.predictor import Predictor
from munkey.encoders import embedded
from munkey.encoders.keys import Keys, normalize_rows
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FAMILIES, FittedArchitecture, Retrieval, read_added_head
from tests.deploy.inputs import png_of
from tests.estimators.inputs import EXACT

KINDS = {**EXACT, "munkey": MunkeyClassifier}
TOKEN = "a token for these tests"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
WIDTH = 5
NAMES = ("ant", "bee", "cat", "dog", "a much longer name")
PEOPLE = tuple(f"person {number}" for number in range(8))


@dataclass
class Sample:
    """What the directory must hold of a sample. x: its row of numbers, or its picture."""

    x: np.ndarray
    label: object
    unit: str | None


def bits(estimator, queries) -> list[object]:
    """All that an estimator says, to the bit."""
    parts = [
        estimator.ids_,
        estimator.classes_,
        estimator.predict_proba(queries),
        estimator.predict(queries),
    ]
    if hasattr(estimator, "coef_"):
        parts += [estimator.coef_, estimator.intercept_]
    if hasattr(estimator, "units_"):
        parts.append(np.array([str(unit) for unit in estimator.units_]))
    return [(part.dtype.str, part.shape, part.tobytes()) for part in parts]


class Service:
    """The service over a socket, in a thread of this process."""

    def __init__(self, predictor: Predictor) -> None:
        app = create_app(predictor, {"forget": TOKEN}, RequestLimits())
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.005)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]

    def ask(self, path: str, body: object, status: int = 200) -> dict[str, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.request("POST", path, json.dumps(body), HEADERS)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        assert answer.status == status, content
        return content

    def stop(self) -> None:
        """It closes its predictor."""
        self._server.should_exit = True
        self._thread.join()


def work_elsewhere(pipe) -> None:
    """Another process. It keeps a predictor and an estimator of a directory, and changes it when it is
    told to.
    """
    # The encoder's weights are loaded once.
    embedded.load_packaged = cache(embedded.load_packaged)
    reader = estimator = directory = queries = None
    while True:
        order = pipe.recv()
        if order is None:
            return
        name, arguments = order
        answer = None
        if name == "use":
            if reader:
                reader.close()
            kind, directory, queries = arguments
            reader = Predictor.load(directory, device="cpu")
            estimator = KINDS[kind].load(directory)
            if kind == "munkey":
                estimator.set_params(device="cpu")
        elif name == "answers":
            answer = reader.predict(queries).logits.tobytes(), bits(estimator, queries)
        elif name == "estimator":
            method, keywords = arguments
            answer = getattr(estimator, method)(**keywords)
        else:
            reader.predict(queries)
            answer = getattr(reader, name)(**arguments)
            reader.predict(queries)
        pipe.send(answer)


class Elsewhere:
    """A process that runs `work_elsewhere`."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work_elsewhere, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # or its end would not be noticed

    def do(self, name: str, arguments: object = None) -> object:
        self._pipe.send((name, arguments))
        return self._pipe.recv()

    def stop(self) -> None:
        self._pipe.send(None)
        self._process.join()


class Uses:
    """All who use a directory of an exact family, and the samples that it must hold.

    Any of them changes it at any time: two predictors that stay open (`reader`, and sometimes
    `second`), the service around the second, the estimator, and the other process by an estimator
    and a predictor of its own.
    """

    def __init__(self, family: str, directory: Path, elsewhere: Elsewhere, seed: int) -> None:
        self.family = family
        self.kind = KINDS[family]
        self.directory = directory
        self.elsewhere = elsewhere
        self.random = np.random.default_rng(seed)
        self.samples: dict[int, Sample] = {}
        self.ever = 0  # ids that were used are below
        self.copies = 0
        self.create()
        self.second: Predictor | None = None
        self.service: Service | None = None
        self.reader = Predictor.load(directory, device="cpu")
        self.estimator = self.load_estimator()
        elsewhere.do("use", (family, directory, self.queries))

    # Overridden by `PictureUses`

    def create(self) -> None:
        self.queries = self.random.normal(size=(7, WIDTH))
        self.names = list(NAMES[:3])
        rows = [self.sample() for _ in range(30)]
        self.samples = dict(enumerate(rows))
        self.ever = len(rows)
        self.fresh().save(self.directory)

    def sample(self) -> Sample:
        label = str(self.random.choice(self.names))
        x = self.random.normal(size=WIDTH) + 2 * np.eye(WIDTH)[NAMES.index(label)]
        return Sample(x, label, self.unit())

    def unit(self) -> str | None:
        return [None, *PEOPLE][self.random.integers(len(PEOPLE) + 1)]

    def load_estimator(self):
        return self.kind.load(self.directory)

    def fresh(self):
        """A fit to the samples that must be there, and to nothing else."""
        ids = sorted(self.samples)
        rows = [self.samples[one] for one in ids]
        labels = np.array([row.label for row in rows])
        estimator = self.kind()
        return estimator.fit(
            np.array([row.x for row in rows]), labels, ids=ids, units=[row.unit for row in rows]
        )

    def expected_bits(self):
        return bits(self.fresh(), self.queries)

    def expected_logits(self) -> np.ndarray:
        """As the pipeline has them: a fit to the samples that must be there, with the classes of
        the memory.
        """
        classes = self.reader.classes.names
        settings = self.reader.manifest.settings
        ids = np.array(sorted(self.samples))
        keys = normalize_rows(np.array([self.samples[one].x for one in ids.tolist()]))
        labels = np.array([classes.index(self.samples[one].label) for one in ids.tolist()])
        kind = FAMILIES[self.family]
        settings = kind.read_section({self.family: settings})
        system = kind.fit(Keys(ids, keys), labels, len(classes), settings)
        queries = normalize_rows(self.queries)
        depth = max(kind.count_neighbors(settings).values(), default=1)
        near = find_nearest(
            Keys(np.full(len(queries), -1), queries), Keys(ids, system.memory.keys.numpy()), depth
        )
        return kind.predict_logits(system, None, None, "cpu", Retrieval(near, keys=queries))

    def body(self) -> dict[str, object]:
        """The queries as /predict takes them."""
        return {"rows": self.queries.tolist()}

    def require_exact(self, model: Predictor) -> None:
        assert model.digests() == model.digests(recompute=True)

    # Who does what

    def step(self) -> str:
        """Do something at random, and return its name."""
        doable = [
            *2 * [self.forget_by_predictor, self.add_by_predictor, self.purge],
            *(self.add_by_estimator, self.forget_by_estimator, self.estimate_elsewhere),
            *(self.write_elsewhere, self.save_a_copy, self.reload),
        ]
        if self.service:
            doable += 2 * [self.forget_by_http]
        doable += [self.release] if self.second else [self.open_second, self.serve]
        act = doable[self.random.integers(len(doable))]
        act()
        self.check()
        return act.__name__

    def check(self) -> None:
        """Everyone answers as a fit to the samples that must be there does."""
        askers = self.random.random(5) < 0.4  # an answer does not come between any two changes
        if not askers.any():
            return
        logits = self.expected_logits()
        expected_bits = self.expected_bits()
        for model, asks in zip((self.reader, self.second), askers[:2], strict=True):
            if model and asks:
                assert model.predict(self.queries).logits.tobytes() == logits.tobytes()
                self.require_exact(model)
        if askers[2]:
            assert bits(self.estimator, self.queries) == expected_bits
        if askers[3]:
            assert self.elsewhere.do("answers") == (logits.tobytes(), expected_bits)
        if self.service and askers[4]:
            names = self.reader.classes.texts
            answers = self.service.ask("/predict", self.body())["predictions"]
            for answer, probabilities in zip(answers, softmax(logits), strict=True):
                expected = {
                    name: float(one) for name, one in zip(names, probabilities, strict=True)
                }
                assert answer["probabilities"] == expected

    def some_ids(self) -> list[int]:
        """Ids to forget, the last ones more often; at least two samples stay."""
        row_ids = sorted(self.samples)
        most = min(4, len(row_ids) - 2)
        if most < 1:
            return []
        pool = row_ids[-8:] if self.random.random() < 0.5 else row_ids
        size = min(int(self.random.integers(1, most + 1)), len(pool))
        return sorted(self.random.choice(pool, size, replace=False).tolist())

    def remove(self, ids) -> None:
        for one in ids:
            del self.samples[int(one)]

    def record(self, ids, samples: list[Sample]) -> None:
        self.samples |= dict(zip(np.asarray(ids).tolist(), samples, strict=True))
        self.ever = max(self.ever, max(np.asarray(ids).tolist()) + 1)

    def new_samples(self) -> list[Sample]:
        return [self.sample() for _ in range(self.random.integers(1, 5))]

    def known_samples(self) -> list[Sample]:
        """New samples of classes that the model knows now."""
        names = {str(name) for name in self.reader.classes.names if name is not None}
        return [sample for sample in self.new_samples() if str(sample.label) in names]

    def open_second(self) -> None:
        self.second = Predictor.load(self.directory, device="cpu")

    def serve(self) -> None:
        self.open_second()
        self.service = Service(self.second)

    def release(self) -> None:
        if self.service:
            self.service.stop()
        self.second.close()
        self.second = self.service = None

    def predictor(self) -> Predictor:
        """One of those that are open."""
        if self.second and self.random.random() < 0.5:
            return self.second
        return self.reader

    def purge(self) -> None:
        assert self.predictor().purge() == ()

    def forget_by_predictor(self) -> None:
        ids = self.some_ids()
        request = None
        if self.random.random() < 0.3:
            request = f"request {self.random.integers(5)}"
        try:
            receipt = self.predictor().forget(ids, request=request)
        except ValueError as error:
            if "was carried out at" not in str(error):
                raise
        else:
            if not receipt.repeated:
                self.remove(ids)

    def forget_by_http(self) -> None:
        ids = self.some_ids()
        body = {"ids": ids, "certificate": bool(self.random.random() < 0.5)}
        answer = self.service.ask("/forget", body, status=200 if ids else 404)
        certificate = answer.get("certificate")
        if certificate:
            check = {"certificate": certificate, "ids": ids, "salt": answer["salt"]}
            assert self.service.ask("/certificate/check", check)["sound"]
        self.remove(ids)

    def add_by_predictor(self) -> None:
        samples = self.known_samples()
        if samples:
            labels = [str(sample.label) for sample in samples]
            units = [sample.unit for sample in samples]
            added = self.predictor().add(self.stacked(samples), labels, units=units)
            self.record(added.ids, samples)

    def stacked(self, samples: list[Sample]) -> np.ndarray:
        return np.array([sample.x for sample in samples])

    def estimator_addition(self) -> tuple[list[Sample], dict[str, object]]:
        """Samples, also of a new class, also under ids of their own, and how an estimator's `add`
        is called.
        """
        if self.random.random() < 0.3:
            self.names = list(NAMES[: self.random.integers(3, len(NAMES) + 1)])
        samples = self.new_samples()
        keywords = {"X": self.stacked(samples), "y": np.array([sample.label for sample in samples])}
        if self.random.random() < 0.3:
            keywords["ids"] = (self.ever + 3 * np.arange(len(samples))[::-1]).tolist()
        return samples, keywords | {"units": [sample.unit for sample in samples]}

    def estimator_deletion(self) -> tuple[list[int], dict[str, object]]:
        if self.random.random() < 0.5:
            ids = self.some_ids()
            return ids, {"ids": ids}
        unit = PEOPLE[self.random.integers(len(PEOPLE))]
        ids = sorted(one for one, sample in self.samples.items() if sample.unit == unit)
        if not ids or len(ids) > len(self.samples) - 2:
            return [], {"ids": []}
        return ids, {"units": [unit]}

    def add_by_estimator(self) -> None:
        samples, keywords = self.estimator_addition()
        ids = self.estimator.add(**keywords)
        assert "ids" in keywords or min(ids) == self.ever  # no id is used twice, whoever used it
        self.record(ids, samples)

    def forget_by_estimator(self) -> None:
        ids, keywords = self.estimator_deletion()
        assert self.estimator.forget(**keywords).tolist() == ids
        self.remove(ids)

    def estimate_elsewhere(self) -> None:
        if self.random.random() < 0.5:
            samples, keywords = self.estimator_addition()
            self.record(self.elsewhere.do("estimator", ("add", keywords)), samples)
        else:
            ids, keywords = self.estimator_deletion()
            assert self.elsewhere.do("estimator", ("forget", keywords)).tolist() == ids
            self.remove(ids)

    def write_elsewhere(self) -> None:
        choice = self.random.integers(3)
        if choice == 0:
            self.elsewhere.do("purge", {})
        elif choice == 1:
            ids = self.some_ids()
            self.elsewhere.do("forget", {"ids": ids})
            self.remove(ids)
        else:
            samples = self.known_samples()
            if not samples:
                return
            labels = [str(sample.label) for sample in samples]
            units = [sample.unit for sample in samples]
            keywords = {"images": self.stacked(samples), "labels": labels, "units": units}
            added = self.elsewhere.do("add", keywords)
            self.record(added.ids, samples)

    def save_a_copy(self) -> None:
        """An estimator saves the samples as they are now elsewhere; the directory stays in use."""
        self.copies += 1
        place = self.directory.with_name(f"copy {self.copies}")
        estimator = self.load_estimator()
        estimator.predict(self.queries)
        estimator.save(place)
        assert bits(estimator, self.queries) == self.expected_bits()
        with Predictor.load(place, device="cpu") as copied:
            assert copied.verify().sound
            assert copied.predict(self.queries).logits.tobytes() == self.expected_logits().tobytes()

    def reload(self) -> None:
        self.reader.close()
        self.reader = Predictor.load(self.directory, device="cpu")
        if self.random.random() < 0.5:
            self.estimator = self.sent(self.estimator)
        else:
            self.estimator = self.load_estimator()

    def sent(self, estimator):
        """As another process gets it."""
        return pickle.loads(pickle.dumps(estimator))

    def close(self) -> None:
        if self.second:
            self.release()
        self.reader.purge()
        report = self.reader.verify()
        assert report.sound
        assert not report.foreign
        self.reader.close()


class PictureUses(Uses):
    """The same, of an exported MUNKEY whose logits LDA's are added to."""

    def __init__(
        self,
        directory: Path,
        elsewhere: Elsewhere,
        seed: int,
        images: np.ndarray,
        labels: np.ndarray,
    ):
        """images, labels: of all samples, by id; the directory is of an export."""
        self._images = images
        self._labels = labels
        super().__init__("munkey", directory, elsewhere, seed)

    def create(self) -> None:
        with Predictor.load(self.directory, device="cpu") as model:
            self.first_new_id = self.ever = model.manifest.memory.first_new_id
            self.names = [str(name) for name in model.classes.names]
            for one in model.ids.tolist():
                self.samples[one] = Sample(self._images[one], self.names[self._labels[one]], None)
        self.queries = self._images[:5]

    def sample(self) -> Sample:
        picture = self.random.integers(0, 256, self._images.shape[1:], dtype=np.uint8)
        return Sample(picture, str(self.random.choice(self.names)), self.unit())

    def load_estimator(self):
        return MunkeyClassifier.load(self.directory).set_params(device="cpu")

    def fresh_logits(self) -> np.ndarray:
        """The logits of a predictor that is loaded anew."""
        with Predictor.load(self.directory, device="cpu") as model:
            assert model.ids.tolist() == sorted(self.samples)
            return model.predict(self.queries).logits

    def expected_logits(self) -> np.ndarray:
        return self.fresh_logits()

    def expected_bits(self):
        return bits(self.load_estimator(), self.queries)

    def body(self) -> dict[str, object]:
        texts = []
        for picture in self.queries:
            texts.append(base64.b64encode(png_of(picture)).decode())
        return {"images": texts}

    def require_exact(self, model: Predictor) -> None:
        """Its head is one fitted to the keys and labels of the samples that must be there."""
        ids = np.array(sorted(self.samples))
        labels = np.array([self.names.index(self.samples[one].label) for one in ids.tolist()])
        keys = model._model.encoder.compute_keys(
            self.stacked([self.samples[one] for one in ids.tolist()])
        )
        family, settings = read_added_head(model.manifest.head)
        fitted = family.fit(
            Keys(ids, keys), labels, len(self.names), family.validate_section(settings)
        )
        snapshot = model._model.snapshot()
        head = model._model.head.solve_head(snapshot)
        for buffer, expected in zip(head.buffers(), fitted.model.buffers(), strict=True):
            assert buffer.numpy().tobytes() == expected.numpy().tobytes()
        digests = model._model.head.digests(snapshot)
        assert digests == model._model.head.digests(snapshot, recompute=True)
        assert isinstance(model._model.head._architecture, FittedArchitecture)

    def some_ids(self) -> list[int]:
        """At least three trained samples stay, which lend their tokens."""
        ids = super().some_ids()
        trained = [one for one in self.samples if one < self.first_new_id]
        going = [one for one in ids if one < self.first_new_id]
        if len(trained) - len(going) >= 3:
            return ids
        return [one for one in ids if one >= self.first_new_id]

    def estimator_addition(self) -> tuple[list[Sample], dict[str, object]]:
        samples = self.new_samples()
        labels = np.array([sample.label for sample in samples])
        units = [sample.unit for sample in samples]
        return samples, {"X": self.stacked(samples), "y": labels, "units": units}

    def sent(self, estimator):
        return self.load_estimator()
