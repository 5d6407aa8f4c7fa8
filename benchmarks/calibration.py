"""Log loss and accuracy of the exact estimators on scikit-learn's tables.

`python -m benchmarks.calibration` prints both next to those of scikit-learn's LDA, over the folds
of repeated stratified cross-validation. Features are standardized in each fold.
"""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tabulate import tabulate

from munkey import ForgettingKNN, ForgettingLDA, ForgettingNCM

TABLES = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
ESTIMATORS: dict[str, BaseEstimator] = {
    "scikit-learn's LDA": LinearDiscriminantAnalysis(),
    "LDA, `temperature=5.0` (before)": ForgettingLDA(temperature=5.0),
    "**LDA**, the default": ForgettingLDA(),
    "**LDA**, `norm=None`": ForgettingLDA(norm=None),
    "LDA, `norm=None, alpha=0.01`": ForgettingLDA(norm=None, alpha=0.01),
    "NCM, `temperature=0.015` (before)": ForgettingNCM(temperature=0.015),
    "**NCM**, the default": ForgettingNCM(),
    "**NCM**, `norm=None`": ForgettingNCM(norm=None),
    "KNN": ForgettingKNN(),
}
FOLDS = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)


def scores(
    estimator: BaseEstimator, X: np.ndarray, y: np.ndarray
) -> tuple[list[float], list[float]]:
    """Return the log losses and the accuracies [percent] of all folds."""
    losses = []
    accuracies = []
    for train, test in FOLDS.split(X, y):
        model = make_pipeline(StandardScaler(), estimator).fit(X[train], y[train])
        probabilities = model.predict_proba(X[test])
        losses.append(float(log_loss(y[test], probabilities)))
        accuracies.append(100 * float((probabilities.argmax(axis=1) == y[test]).mean()))
    return losses, accuracies


def main() -> None:
    """Print the table in Markdown: mean ± standard deviation over the folds."""
    rows = []
    for name, estimator in ESTIMATORS.items():
        row = [name]
        for load in TABLES.values():
            losses, accuracies = scores(estimator, *load(return_X_y=True))
            loss = f"{np.mean(losses):.3f} ± {np.std(losses, ddof=1):.3f}"
            accuracy = f"{np.mean(accuracies):.1f} ± {np.std(accuracies, ddof=1):.1f}"
            row.append(f"{loss}; {accuracy}")
        rows.append(row)
    print(tabulate(rows, headers=["estimator", *TABLES], tablefmt="pipe"))


if __name__ == "__main__":
    main()
