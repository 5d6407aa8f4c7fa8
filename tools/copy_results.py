"""Copy the results that the docs show from results/NAME to docs/results/NAME.

These are the tables with a marker in a page (tools.docs_tables) and all files to which a page links.
Run this module from the project's folder:

python -m tools.copy_results NAME
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from munkey.core.files import atomic, read_bytes
from munkey.core.paths import Layout

# A result in a marker at the start of a line, or in a link, whose path may start with ../ or docs/.
SHOWN = re.compile(r"(?:^<!-- |\]\((?:\.\./|docs/)*)(results/[^\s):]+)", re.MULTILINE)


def pages() -> list[Path]:
    """List all pages of the docs."""
    return [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]


def shown(texts: Iterable[str]) -> list[str]:
    """List the results that pages show, as paths below docs/."""
    paths: set[str] = set()
    for text in texts:
        paths.update(SHOWN.findall(text))
    return sorted(paths)


def keep(name: str) -> list[str]:
    """Copy the results of a configuration that the pages show. Returns their paths.

    Copies all of them or none, so that no page mixes two runs. Raises FileNotFoundError, which
    lists the missing files, or DamagedFileError.
    """
    folder = Path(Layout(name).all_metrics).parent
    shown_paths = shown(page.read_text() for page in pages())
    paths = [path for path in shown_paths if Path(path).is_relative_to(folder)]
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise FileNotFoundError(
            f"nothing was kept, since files that the docs show are missing: {', '.join(missing)}"
        )
    contents = {path: read_bytes(path) for path in paths}
    for path, content in contents.items():
        with atomic(Path("docs", path)) as temporary:
            temporary.write_bytes(content)
    return paths


if __name__ == "__main__":
    try:
        copied = keep(sys.argv[1])
    except (FileNotFoundError, ValueError) as error:  # a result is missing or damaged
        sys.exit(str(error))
    for path in copied:
        print(f"kept docs/{path}")
    if not copied:
        print(f"the docs show nothing of {sys.argv[1]!r}")
