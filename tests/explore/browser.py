"""A headless Chromium of the system, where there is one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def chromium() -> str:
    """The program; skips the test where it is not installed."""
    pytest.importorskip(
        "playwright", reason="playwright is not installed: pip install 'munkey[dev]'"
    )
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    pytest.skip("no Chromium is installed: apt-get install chromium")


@contextmanager
def launched() -> Iterator[Any]:
    """The browser. While it runs, its thread has a running event loop, so no test may keep it for others."""
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, file: Path, fragment: str = "", **options: Any) -> Iterator[Any]:
    """A page, opened from disk and drawn. Raises AssertionError for an error in its console."""
    complaints: list[str] = []
    requests: list[str] = []
    tab = browser.new_page(**options)
    tab.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(f"{file.as_uri()}{fragment}")
    tab.wait_for_selector("html[data-drawn]", timeout=60_000)
    yield tab
    tab.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
