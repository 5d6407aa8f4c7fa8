"""The samples behind predictions, as a table."""

from munkey.deploy.model.prediction import Prediction

HEADERS = (
    "picture",
    "answer",
    "probability",
    "neighbor",
    "id",
    "label",
    "weight",
    "cosine",
    "source file",
)
# Columns of names, never to be formatted as numbers: a class may be called 1.50.
NAME_COLUMNS = [HEADERS.index(header) for header in ("answer", "label", "source file")]


def table(prediction: Prediction) -> str:
    """Format a table with one row for each neighbor that the predictions are based on.

    If there are no neighbors, return the sentence that describes how the model predicts.
    """
    from tabulate import tabulate

    table_rows = []
    for row in prediction.explanation():
        table_row = (
            row.picture,
            row.answer,
            row.probability,
            row.rank,
            row.id,
            row.label or "?",
            row.weight,
            row.cosine,
            row.file,
        )
        table_rows.append(table_row)
    if not table_rows:
        return prediction.basis
    return tabulate(
        table_rows, HEADERS, floatfmt=".3f", missingval="unknown", disable_numparse=NAME_COLUMNS
    )
