"""The page in a real browser."""

import time
from pathlib import Path
from typing import Any

import pytest

from munkey.explore.contents import VIEWS
from tests.explore.browser import opened
from tests.explore.conftest import write_made_page

PHONE = {"width": 390, "height": 844}
HANG = (
    20.0  # seconds after which a selection counts as hanging; benchmarks/explore.py measures speed
)


def test_each_view_draws_without_an_error_and_asks_for_no_other_file(
    browser: Any, made_page: Path
) -> None:
    with opened(browser, made_page) as tab:
        for view in VIEWS:
            section = tab.locator(f"#{view.name}")
            assert section.locator(".looks-at").inner_text() == view.looks_at
            assert section.locator(".body > *").count() > 0
        assert tab.locator("#designs svg[role=img], #samples svg[role=img]").count() == 2
        assert tab.locator("#requests svg[role=img] [aria-label=line] path").count() == 2
        assert tab.locator("#map canvas").get_attribute("aria-label").startswith("120 pictures")
        assert "forgotten" in tab.locator(".privacy").first.inner_text()


def test_a_click_on_a_sample_changes_the_picture(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        before = tab.locator("#picture figure").get_attribute("data-shown")
        other = tab.locator(f"#samples .kept .sample:not([data-sample='{before}'])").first
        wanted = other.get_attribute("data-sample")
        other.click()
        assert tab.locator("#picture figure").get_attribute("data-shown") == wanted != before
        assert tab.locator("#neighbors .two .sample").first.get_attribute("data-sample") == wanted
        assert f"sample={wanted}" in tab.url


def test_a_click_on_the_columns_chooses_the_sample_below(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        tab.locator("#samples input[type=range]").focus()
        tab.keyboard.press("End")
        last = tab.locator("#picture figure").get_attribute("data-shown")
        box = tab.locator("#samples svg.clickable").bounding_box()
        tab.mouse.click(box["x"] + 60, box["y"] + box["height"] / 2)
        assert tab.locator("#picture figure").get_attribute("data-shown") != last


def test_the_keyboard_chooses_a_sample_and_a_method(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        button = tab.locator("#samples .kept .sample").nth(3)
        wanted = button.get_attribute("data-sample")
        button.focus()
        tab.keyboard.press("Enter")
        assert tab.locator("#picture figure").get_attribute("data-shown") == wanted
        assert tab.locator("#announced").inner_text() == f"picture #{wanted} is shown"
        tab.locator("#designs button[aria-label$='as A']").last.focus()
        tab.keyboard.press("Space")
        assert "a=two" in tab.url


def test_the_address_restores_what_was_chosen(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        tab.locator("select[name=class]").select_option("1")
        tab.locator("select[name=a]").select_option("two")
        tab.locator("#samples .kept .sample").nth(1).click()
        shown = tab.locator("#samples .one").inner_text()
        address = tab.url
    fragment = address.partition("#")[2]
    with opened(browser, made_page, f"#{fragment}") as tab:
        assert tab.locator("select[name=class]").input_value() == "1"
        assert tab.locator("select[name=a]").input_value() == "two"
        assert tab.locator("#samples .one").inner_text() == shown


@pytest.mark.parametrize(
    "fragment", ["#sample=99999&class=77&a=nobody&area=1,2", "#a=<script>", "#%"]
)
def test_an_address_without_sense_shows_the_defaults(
    browser: Any, made_page: Path, fragment: str
) -> None:
    with opened(browser, made_page, fragment) as tab:
        assert tab.locator("select[name=a]").input_value() == "one"
        assert tab.locator("select[name=class]").input_value() == ""


def test_names_with_markup_do_nothing(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        tab.locator("select[name=a]").select_option("two")
        tab.locator("#samples .kept .sample").first.click()
        assert tab.title() != "owned"
        assert tab.locator("img").count() == 0
        assert "<script>" in tab.locator("#samples .by-class").inner_text()  # as text


def test_an_area_of_the_map_selects_in_the_other_views(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        assert "n = 30 forgotten" in tab.locator("#samples").inner_text()
        tab.locator("#map").scroll_into_view_if_needed()
        box = tab.locator("#map canvas").bounding_box()
        tab.mouse.move(box["x"] + 5, box["y"] + 5)
        tab.mouse.down()
        tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=4)
        tab.mouse.up()
        assert "area=" in tab.url
        assert "n = 30 forgotten" not in tab.locator("#samples").inner_text()
        tab.get_by_role("button", name="Clear the area").click()
        assert "n = 30 forgotten" in tab.locator("#samples").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways(
    browser: Any, made_page: Path, scheme: str
) -> None:
    with opened(browser, made_page, viewport=PHONE, color_scheme=scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_5000_samples_do_not_hang(browser: Any) -> None:
    with opened(browser, write_made_page(5000, 500)) as tab:
        for name, value in (("class", "1"), ("class", ""), ("a", "two")):
            start = time.perf_counter()
            tab.locator(f"select[name={name}]").select_option(value)
            assert time.perf_counter() - start < HANG
            print(name, value, tab.locator("html").get_attribute("data-selection-ms"), "ms")
