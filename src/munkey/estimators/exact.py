"""Estimators that forget exactly: LDA, nearest class mean and k-nearest neighbors.

Their parameters are the settings in the family's section of params.yaml. Those with a linear head
also have `norm` and `bound`.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from munkey.estimators.classifier import ForgettingClassifier
from munkey.estimators.names import list_values, to_python
from munkey.estimators.rows import RowsInDirectory, RowsInMemory


class ForgettingLinear(ForgettingClassifier):
    """Base class of classifiers with a linear head: the logits are coef_ · key + intercept_.

    A key is a row of X, scaled to unit norm or, with ``norm=None``, divided by `bound`.
    """

    norm: Literal["unit"] | None
    bound: float

    @property
    def coef_(self) -> np.ndarray:
        """The weights of each class: ndarray of float64 of shape (n_classes, n_features)."""
        return self._rows.head.weight.numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """The bias of each class: ndarray of float64 of shape (n_classes,)."""
        return self._rows.head.bias.numpy()

    @property
    def temperature_(self) -> float:
        """The divisor of the logits: `temperature`, or the value that "auto" chose."""
        return float(self._rows.head.temperature)

    def _get_family_settings(self) -> dict[str, Any]:
        settings = super()._get_family_settings()
        # These two are parameters of the estimator only. The family gets rows that are scaled already.
        del settings["norm"]
        del settings["bound"]
        return settings

    def _get_estimator_params(self) -> dict[str, Any]:
        """Return the bound, unless rows are scaled to unit norm.

        Raises ValueError for invalid parameters.
        """
        if self.norm not in ("unit", None):
            raise ValueError(f"norm must be 'unit' or None, not {self.norm!r}")
        bound = to_python(self.bound)
        is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if not is_number or not 0 < bound < np.inf:
            raise ValueError(f"bound must be a positive number, not {self.bound!r}")
        if self.norm == "unit":
            return {}
        return {"bound": float(bound)}

    def _restore_params(self, params: dict[str, Any]) -> None:
        if "bound" in params:
            self.set_params(norm=None, bound=params["bound"])


class ForgettingLDA(ForgettingLinear):
    """Linear discriminant analysis that forgets rows exactly (docs/methods/lda.md).

    The covariance is shared by all classes and shrunk toward a multiple of the identity.

    Parameters
    ----------
    alpha : float or "auto", default=0.2
        Shrinkage of the covariance toward the same variance in all directions, from 0.0001 to 1.
        The fewer rows, the more shrinkage is needed. A number stays fixed, so choose it without
        using rows that you may have to forget. "auto" chooses one of nine values by leave-one-out log
        loss, and chooses again after each deletion.
    temperature : float or "auto", default="auto"
        Divisor of the logits. "auto" minimizes the leave-one-out log loss, and does so again after
        each deletion.
    norm : "unit" or None, default="unit"
        "unit" divides each row by its Euclidean norm, which suits embeddings. For tables, also try
        None: if the norms of rows differ between classes, "unit" reduces accuracy without a
        warning. On scaled iris, accuracy is 0.87 with "unit", 0.95 with None, and 0.98 with None
        and ``alpha=0.01`` (docs/serving.md).
    bound : float, default=64.0
        Largest absolute value of a feature, if ``norm=None``. `fit` and `add` reject rows with
        larger values. Values are stored in steps of bound / 32,768, so that their sums are exact.
        The bound is a constant, since one computed from the data would keep a trace of deleted
        rows.
    priors : array-like of shape (n_classes,), "balanced" or None, default=None
        The prior probability of each class, in the order of `classes_`; they are divided by their
        sum. "balanced" gives all classes the same. None takes their shares of the rows. With
        priors, "auto" weighs rows so that classes count as much as the priors say. An array stays
        fixed, so choose it without using rows that you may have to forget.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes that have rows, in ascending order.
    ids_ : ndarray of int64 of shape (n_rows,)
        The ids of the rows, in ascending order.
    units_ : ndarray of shape (n_rows,)
        The unit of each row, in the order of `ids_`. None for a row without a unit.
    coef_, intercept_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        The linear head on keys, which are rows at unit norm or divided by `bound`.
    alpha_, temperature_ : float
        The shrinkage and the temperature in use.
    priors_ : ndarray of shape (n_classes,)
        The prior probabilities in use, which sum to 1.
    directory_ : Path or None
        The directory of the model, or None before it is saved.

    Notes
    -----
    After `forget`, weights, temperature and predictions are bit-for-bit the same as those of a fit
    on the remaining rows. "auto" computes leave-one-out predictions in closed form for up to 4,096
    rows (fewer with more than 1,024 classes). It ignores rows that are alone in their class. If no
    class has two rows, the temperature is 1.

    If a class loses its last row, its prior is dropped, and those of the other classes keep their
    ratios. With an array of priors, `add` accepts only classes that have rows.

    The temperature divides the log of the priors, too. Priors do not change the covariance, which
    in scikit-learn they do with the solvers "lsqr" and "eigen".

    Do not put a fitted scaler, such as `StandardScaler`, before this estimator, because its means
    and variances would keep traces of deleted rows. Scale features by fixed factors instead.

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
        priors: ArrayLike | Literal["balanced"] | None = None,
    ) -> None:
        self.alpha = alpha
        self.temperature = temperature
        self.norm = norm
        self.bound = bound
        self.priors = priors

    @property
    def alpha_(self) -> float:
        """The shrinkage of the covariance: `alpha`, or the value that "auto" chose."""
        return float(self._rows.head.constant)

    @property
    def priors_(self) -> np.ndarray:
        """The prior probability of each class: ndarray of float64 of shape (n_classes,)."""
        return self._rows.head.priors

    def _get_family_settings(self) -> dict[str, Any]:
        settings = super()._get_family_settings()
        if hasattr(self.priors, "keys"):  # a mapping, or a pandas object with an index
            raise ValueError(
                "priors must be a list or an array of numbers in ascending order of the classes, not"
                f" a {type(self.priors).__name__}, whose order may be another"
            )
        if self.priors is not None and not isinstance(self.priors, str):
            priors = list_values(self.priors)
            if not all(isinstance(prior, int | float) and prior > 0 for prior in priors):
                raise ValueError(f"priors must be positive numbers, not {priors}")
            settings["priors"] = priors
        return settings

    def _require_possible(self, labels: np.ndarray, rows: RowsInMemory | RowsInDirectory) -> None:
        """Raise ValueError if a class is new, but the priors are those of the others."""
        new_classes = np.setdiff1d(labels, rows.classes).tolist()
        priors = rows.settings.model_dump().get("priors")
        if new_classes and isinstance(priors, list):
            raise ValueError(
                f"the classes {new_classes} have no prior, since priors were given for"
                f" {rows.classes.tolist()}: fit to all rows, with a prior for each class"
            )


class ForgettingNCM(ForgettingLinear):
    """Nearest class mean that forgets rows exactly (docs/methods/ncm.md).

    Parameters
    ----------
    temperature, norm, bound
        Same as for `ForgettingLDA`.

    Attributes
    ----------
    classes_, ids_, units_, coef_, intercept_, temperature_, directory_
        Same as for `ForgettingLDA`.

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
    """K-nearest neighbors by cosine similarity that forgets rows exactly (docs/methods/knn.md).

    Parameters
    ----------
    k : int, default=16
        Number of nearest rows that vote, at most 100.
    vote : {"similarity", "equal", "rank"}, default="similarity"
        Weights of the votes: the softmax of cosine / temperature, equal weights, or weights
        proportional to 1 / (2 + rank), with ranks from 0.
    temperature : float, default=0.02
        Temperature of "similarity". There is no "auto", because leave-one-out predictions would
        require comparing all pairs of rows after each deletion.

    Attributes
    ----------
    classes_, ids_, units_, directory_
        Same as for `ForgettingLDA`.

    Notes
    -----
    Rows are scaled to unit norm, which does not change cosines.

    `decision_function` returns the logarithms of the classes' shares of votes, at least log 1e-6.

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

    def __init__(
        self,
        k: int = 16,
        vote: Literal["similarity", "equal", "rank"] = "similarity",
        temperature: float = 0.02,
    ) -> None:
        self.k = k
        self.vote = vote
        self.temperature = temperature
