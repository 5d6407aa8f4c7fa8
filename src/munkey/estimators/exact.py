"""The estimators, one for each family that deletes exactly. Their settings are the family's of params.yaml."""

from typing import Any, Literal

import numpy as np

from munkey.encoders.keys import at_unit_norm, within
from munkey.estimators.classifier import ForgettingClassifier, plain
from munkey.memory.sums import UNIT


class ForgettingLinear(ForgettingClassifier):
    """A linear head: logits are keys · coef_ + intercept_.

    A key is a row of X at unit norm or, with ``norm=None``, divided by `bound`.
    """

    norm: Literal["unit"] | None
    bound: float

    @property
    def coef_(self) -> np.ndarray:
        """The weights of keys, a row for each of `classes_`: ndarray of float64 of shape (n_classes, n_features)."""
        return self._held.head.weight.numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """What is added for each of `classes_`: ndarray of float64 of shape (n_classes,)."""
        return self._held.head.bias.numpy()

    @property
    def temperature_(self) -> float:
        """What the logits are divided by: `temperature`, or what `auto` makes of the rows that are left."""
        return float(self._held.head.temperature)

    def _settings(self) -> dict[str, Any]:
        own = ("norm", "bound")
        return {name: value for name, value in super()._settings().items() if name not in own}

    def _own_params(self) -> dict[str, Any]:
        bound = plain(self.bound)
        if self.norm not in ("unit", None):
            raise ValueError(f"norm must be 'unit' or None, not {self.norm!r}")
        if not isinstance(bound, int | float) or isinstance(bound, bool) or not 0 < bound < np.inf:
            raise ValueError(f"bound must be a positive number, not {self.bound!r}")
        return {} if self.norm == "unit" else {"bound": float(bound)}

    def _take(self, params: dict[str, Any]) -> None:
        if "bound" in params:
            self.set_params(norm=None, bound=params["bound"])

    def _keys(self, X: np.ndarray) -> np.ndarray:
        return at_unit_norm(X) if self.norm == "unit" else within(X, self.bound)

    def _held_keys(self, X: np.ndarray) -> np.ndarray:
        if self.norm is None and X.size:
            row, column = np.unravel_index(np.abs(X).argmax(), X.shape)
            largest = abs(float(X[row, column]))
            if largest > self.bound:
                names = getattr(self, "feature_names_in_", None)
                feature = f"number {column}" if names is None else repr(str(names[column]))
                enough = 2.0 ** np.ceil(np.log2(largest))
                raise ValueError(
                    f"feature {feature} reaches {largest:g}, beyond bound={self.bound:g}: scale X by fixed factors, or"
                    f" pass bound={enough:g}, which holds values in steps of {enough * UNIT:.2g}"
                )
        return self._keys(X)


class ForgettingLDA(ForgettingLinear):
    """Linear discriminant analysis with a shrunk covariance that forgets rows exactly (docs/methods/lda.md).

    Parameters
    ----------
    alpha : float or "auto", default=0.2
        Share of the covariance that is taken to be alike in all directions, from 0.0001 to 1: fewer
        rows need more. A constant: choose it without the rows that may have to go. "auto" takes the
        one of 9 by which rows that are left out are answered with the least log loss, and does so
        anew at each deletion, from the rows that remain.
    temperature : float or "auto", default="auto"
        Divides the logits. "auto" takes the one by which rows that are left out are answered with the
        least log loss, and does so anew at each deletion, from the rows that remain.
    norm : "unit" or None, default="unit"
        "unit" divides each row by its length, as embeddings want it. For tables try None, too: where the
        length of a row tells classes apart, unit norm costs accuracy without a sign of it, on scaled iris
        0.87 instead of 0.95, and 0.98 with ``alpha=0.01`` (docs/serving.md).
    bound : float, default=64.0
        Read with ``norm=None``: the largest absolute value of a feature. Values are held in steps of
        bound / 32,768, so that sums of them are exact; a row beyond it is refused by `fit` and `add`.
        It is a constant and not taken from the data, of which it would keep a trace.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows, ascending.
    ids_ : ndarray of int64 of shape (n_rows,)
        The ids of the rows, ascending.
    units_ : ndarray of shape (n_rows,)
        The units of the rows, by ascending id, None where there is none.
    coef_, intercept_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        The linear head on keys: rows at unit norm, or divided by `bound`.
    alpha_, temperature_ : float
        The constants in use.
    directory_ : Path or None
        Where it was saved to or loaded from.

    Notes
    -----
    After `forget`, weights, temperature and answers equal those of a fit on the remaining rows, to the
    bit. The temperature is computed in closed form from up to 4,096 rows, fewer with more than 1,024
    classes; rows that are alone in their class are passed over, and it is 1 where no class has two rows.

    A scaler that was fitted, such as `StandardScaler`, keeps what it learned of deleted rows: scale
    features in different units by fixed factors.

    Examples
    --------
    >>> from munkey import ForgettingLDA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ForgettingLDA(norm=None).fit(X, y, units=[f"plant {row // 5}" for row in range(150)])
    >>> model.forget(units="plant 7").tolist()
    [35, 36, 37, 38, 39]
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    family = "lda"

    def __init__(
        self,
        alpha: float | Literal["auto"] = 0.2,
        temperature: float | Literal["auto"] = "auto",
        norm: Literal["unit"] | None = "unit",
        bound: float = 64.0,
    ) -> None:
        self.alpha = alpha
        self.temperature = temperature
        self.norm = norm
        self.bound = bound

    @property
    def alpha_(self) -> float:
        """The share that shrinks the covariance: `alpha`, or what `auto` makes of the rows that are left."""
        return float(self._held.head.constant)


class ForgettingNCM(ForgettingLinear):
    """The nearest class mean, which forgets rows exactly (docs/methods/ncm.md).

    Parameters
    ----------
    temperature, norm, bound
        As those of `ForgettingLDA`.

    Examples
    --------
    >>> from munkey import ForgettingNCM
    >>> model = ForgettingNCM(norm=None).fit([[0.0], [1.0], [4.0], [5.0]], ["low", "low", "high", "high"])
    >>> model.predict([[0.4], [4.9]]).tolist()
    ['low', 'high']
    >>> model.forget(labels="high").tolist()
    [2, 3]
    """

    family = "ncm"

    def __init__(
        self,
        temperature: float | Literal["auto"] = "auto",
        norm: Literal["unit"] | None = "unit",
        bound: float = 64.0,
    ) -> None:
        self.temperature = temperature
        self.norm = norm
        self.bound = bound


class ForgettingKNN(ForgettingClassifier):
    """The vote of the nearest rows by cosine, which forgets rows exactly (docs/methods/knn.md).

    Parameters
    ----------
    k : int, default=16
        How many rows vote, at most 100.
    vote : {"similarity", "equal", "rank"}, default="similarity"
        The weights of the votes: softmax of cosine / temperature, all equal, or 1 / (2 + rank).
    temperature : float, default=0.02
        Of the vote "similarity". A constant: to choose it by rows left out would compare all rows with
        all others at each deletion.

    Notes
    -----
    Rows are brought to unit norm, since cosines do not depend on their length.

    Examples
    --------
    >>> from munkey import ForgettingKNN
    >>> model = ForgettingKNN(k=1).fit([[1.0, 0.0], [0.9, 0.2], [0.0, 1.0]], ["right", "right", "up"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['right']
    >>> len(model.forget([0, 1])), model.predict([[1.0, 0.1]]).tolist()
    (2, ['up'])
    """

    family = "knn"

    def __init__(self, k: int = 16, vote: str = "similarity", temperature: float = 0.02) -> None:
        self.k = k
        self.vote = vote
        self.temperature = temperature
