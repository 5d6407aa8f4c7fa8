"""What a published run has of a run's results, and what it leaves out unless it is asked for."""

# What `--with` adds. Everything else is text, a figure, or the logits.
PICTURES = "pictures"  # and pages that show them, and the names of files and units
KEYS = "keys"  # and the nearest neighbors
MODELS = "models"  # which contain tokens
KINDS = (PICTURES, KEYS, MODELS)

FOLDERS = {
    "explore": PICTURES,
    "keys": KEYS,
    "neighbors": KEYS,
    "exports": MODELS,
    "trace": MODELS,  # has the tokens after each epoch
}
PICTURE_FILES = ("images.npy", "samples.csv")
ARRAYS_OF_LOGITS = ("logits", "streams")  # folders in which an .npz file contains logits
TABLES_AND_FIGURES = (".md", ".tex", ".svg", ".png")
TEXT_AND_FIGURES = (".csv", ".json", ".html", *TABLES_AND_FIGURES)


def find_kind(path: str) -> str:
    """Return which of KINDS a result is, or "" for one that is always published.

    Parameters
    ----------
    path
        The path from the project's folder: results/NAME/...
    """
    _, _, *parts = path.split("/")
    folder = parts[0]
    file = parts[-1]
    if folder in FOLDERS:
        return FOLDERS[folder]
    if file in PICTURE_FILES:
        return PICTURES
    if file.endswith(TEXT_AND_FIGURES):
        return ""
    if folder in ARRAYS_OF_LOGITS and file.endswith(".npz"):
        return ""
    return MODELS


def is_result(path: str) -> bool:
    """Return whether a path is that of a result, as opposed to a file of the code."""
    return path.startswith("results/") and path.count("/") >= 2


def list_kinds(paths: list[str]) -> list[str]:
    """Return the kinds of results among the inputs and outputs of a job, sorted."""
    kinds = {find_kind(path) for path in paths if is_result(path)}
    return sorted(kinds - {""})
