"""Copies the results that the docs show from results/NAME to docs/results/NAME.

The pages themselves say which: tables by their marker (tools.docs_tables), pictures and other tables by their link.
Run from the project's folder:

python -m tools.copy_results NAME
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from munkey.core.files import atomic, read_bytes
from munkey.core.paths import Layout

SHOWN = re.compile(r"(?:^<!-- |\]\((?:\.\./|docs/)*)(results/[^\s):]+)", re.MULTILINE)


def pages() -> list[Path]:
    """All pages of the docs."""
    return [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]


def shown(texts: Iterable[str]) -> list[str]:
    """The results that pages show, as paths below docs/."""
    return sorted({path for text in texts for path in SHOWN.findall(text)})


def keep(name: str) -> list[str]:
    """Copy what the pages show of a configuration, and say what was copied.

    All of it or nothing, so that no page mixes two runs: raises FileNotFoundError that names what is not there, and
    DamagedFileError.
    """
    folder = Path(Layout(name).all_metrics).parent
    own = [
        path
        for path in shown(page.read_text() for page in pages())
        if Path(path).is_relative_to(folder)
    ]
    if missing := [path for path in own if not Path(path).exists()]:
        raise FileNotFoundError(
            f"nothing was kept, since files that the docs show are missing: {', '.join(missing)}"
        )
    contents = {path: read_bytes(path) for path in own}
    for path, content in contents.items():
        with atomic(Path("docs", path)) as temporary:
            temporary.write_bytes(content)
    return own


if __name__ == "__main__":
    try:
        copied = keep(sys.argv[1])
    except (FileNotFoundError, ValueError) as error:  # not made, or damaged
        sys.exit(str(error))
    print(
        "\n".join(f"kept docs/{path}" for path in copied)
        or f"the docs show nothing of {sys.argv[1]!r}"
    )
