"""Ridge regression that forgets rows exactly, on random features or with a kernel."""

from typing import Literal

from munkey.estimators.classifier import ForgettingClassifier


class ForgettingRidge(ForgettingClassifier):
    """Base class of ridge regressions, with the penalty and temperature in use."""

    @property
    def lam_(self) -> float:
        """The penalty: `lam`, or the value that "auto" chose."""
        return float(self._rows.head.constant)

    @property
    def temperature_(self) -> float:
        """The divisor of the logits: `temperature`, or the value that "auto" chose."""
        return float(self._rows.head.temperature)


class ForgettingRanPAC(ForgettingRidge):
    """Ridge regression on random features that forgets rows exactly (docs/methods/ranpac.md).

    Parameters
    ----------
    features : int, default=2000
        Number of random projections, at most 20,000. The model stores 8 bytes times the square of
        this number, and each deletion solves a linear system of this size.
    seed : int, default=0
        Seed of the random projections.
    lam : float or "auto", default="auto"
        Ridge penalty. "auto" minimizes the generalized cross-validation error, and does so again
        after each deletion.
    temperature : float or "auto", default="auto"
        Divisor of the logits. "auto" minimizes the leave-one-out log loss, and does so again after
        each deletion.

    Attributes
    ----------
    lam_, temperature_ : float
        The penalty and the temperature in use.

    Notes
    -----
    Rows are scaled to unit norm. After `forget`, weights, constants and predictions are bit-for-bit
    the same as those of a fit on the remaining rows.

    Examples
    --------
    >>> from munkey import ForgettingRanPAC
    >>> X, y = [[1.0, 0.0], [0.9, 0.2], [0.0, 1.0], [0.1, 0.8]], ["right", "right", "up", "up"]
    >>> model = ForgettingRanPAC(features=100).fit(X, y)
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['right']
    >>> len(model.forget(labels="right")), model.predict([[1.0, 0.1]]).tolist()
    (2, ['up'])
    """

    family = "ranpac"

    def __init__(
        self,
        features: int = 2000,
        seed: int = 0,
        lam: float | Literal["auto"] = "auto",
        temperature: float | Literal["auto"] = "auto",
    ) -> None:
        self.features = features
        self.seed = seed
        self.lam = lam
        self.temperature = temperature


class ForgettingKRR(ForgettingRidge):
    """Kernel ridge regression that forgets rows exactly (docs/methods/krr.md).

    It can be fitted to at most 10,000 rows.

    Parameters
    ----------
    lam : float or "auto", default=0.03
        Ridge penalty. A number stays fixed, so choose it without using rows that you may have to
        forget. "auto" minimizes the leave-one-out log loss, and does so again after each deletion,
        which takes about seven times as long.
    temperature : float or "auto", default="auto"
        Divisor of the logits. "auto" works as in `ForgettingRanPAC`.
    pixels : int, default=0
        Number of trailing columns that are pixels, to which a Gaussian kernel is applied.
    sigma : float, default=0.4
        Bandwidth of the Gaussian kernel. The pixels of each row are first scaled to unit norm.
    share : float, default=0.5
        Weight of the arc-cosine kernel if there are both pixels and other columns. The weight of
        the Gaussian kernel is 1 - share.

    Attributes
    ----------
    lam_, temperature_ : float
        The penalty and the temperature in use.

    Notes
    -----
    Rows are scaled to unit norm. After `forget`, weights, constants and predictions are bit-for-bit
    the same as those of a fit on the remaining rows. Each deletion solves a linear system with one
    equation per row (see docs/methods/krr.md for timings). The kernel matrix needs 8 bytes times
    the square of the number of rows. For more rows, use `ForgettingLDA` or `ForgettingRanPAC`.

    Examples
    --------
    >>> from munkey import ForgettingKRR
    >>> X, y = [[1.0, 0.0], [0.9, 0.2], [0.0, 1.0], [0.1, 0.8]], ["right", "right", "up", "up"]
    >>> model = ForgettingKRR().fit(X, y)
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['right']
    >>> len(model.forget(labels="right")), model.predict([[1.0, 0.1]]).tolist()
    (2, ['up'])
    """

    family = "krr"

    def __init__(
        self,
        lam: float | Literal["auto"] = 0.03,
        temperature: float | Literal["auto"] = "auto",
        pixels: int = 0,
        sigma: float = 0.4,
        share: float = 0.5,
    ) -> None:
        self.lam = lam
        self.temperature = temperature
        self.pixels = pixels
        self.sigma = sigma
        self.share = share
