"""Ridge regression on features of rows: random ones, in sums, or those of a kernel, in the rows themselves."""

from typing import Literal

from munkey.estimators.classifier import ForgettingClassifier


class ForgettingRidge(ForgettingClassifier):
    """Base class of both, which have a penalty and a temperature."""

    @property
    def lam_(self) -> float:
        """The penalty: `lam`, or the one that "auto" chose from the rows."""
        return float(self._rows.head.constant)

    @property
    def temperature_(self) -> float:
        """The divisor of the logits: `temperature`, or the one that "auto" chose from the rows."""
        return float(self._rows.head.temperature)


class ForgettingRanPAC(ForgettingRidge):
    """Ridge regression on random features, which forgets rows exactly (docs/methods/ranpac.md).

    Parameters
    ----------
    features : int, default=2000
        How many random projections of a row are taken, at most 20,000. Their sums take 8 bytes times
        the square of that, and a deletion solves as many equations.
    seed : int, default=0
        Of the projections.
    lam : float or "auto", default="auto"
        Penalty. "auto" takes the one with the least error of generalized cross-validation, and does so
        anew at each deletion, from the rows that remain.
    temperature : float or "auto", default="auto"
        Divides the logits. "auto" takes the one by which rows that are left out are answered with the
        least log loss, anew at each deletion.

    Attributes
    ----------
    lam_, temperature_ : float
        The constants in use.

    Notes
    -----
    Rows are brought to unit norm. After `forget`, weights, constants and answers equal those of a fit
    on the remaining rows, to the bit.

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
    """Kernel ridge regression, for at most 10,000 rows, which forgets rows exactly (docs/methods/krr.md).

    Parameters
    ----------
    lam : float or "auto", default=0.03
        Penalty. A constant: choose it without the rows that may have to go. "auto" takes the one by
        which rows that are left out are answered with the least log loss, anew at each deletion, in
        about seven times the time.
    temperature : float or "auto", default="auto"
        Divides the logits. "auto": as that of `ForgettingRanPAC`.
    pixels : int, default=0
        How many of the last columns are pixels, for which the kernel is Gaussian.
    sigma : float, default=0.4
        Width of the Gaussian kernel; the pixels of a row count at unit norm.
    share : float, default=0.5
        Weight of the arc-cosine kernel on the columns before the pixels, if there are both.

    Attributes
    ----------
    lam_, temperature_ : float
        The constants in use.

    Notes
    -----
    Rows are brought to unit norm. After `forget`, weights, constants and answers equal those of a fit
    on the remaining rows, to the bit. Each deletion solves as many equations as there are rows
    (docs/methods/krr.md says how long that takes), and the kernel takes 8 bytes times the square of
    the rows in memory. For more rows, take `ForgettingLDA` or `ForgettingRanPAC`.

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
