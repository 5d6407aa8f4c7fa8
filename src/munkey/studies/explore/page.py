"""The page that shows the single samples of a data set."""

from pathlib import Path

from munkey.core.files import write_text
from munkey.explore import page as explore_page
from munkey.studies.explore.results import Experiment, ResultFiles, gather_contents
from munkey.studies.explore.settings import ExploreSettings


def explore(
    page: Path, files: ResultFiles, explored: Experiment, settings: ExploreSettings
) -> None:
    """Write the page that shows the single samples of a data set."""
    text = explore_page.render_page(gather_contents(files, explored, settings))
    write_text(page, text)
    print(f"{page}: {len(text.encode()) / 1e6:.1f} MB")
