"""The page in a real browser."""

import shutil
import subprocess
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from munkey.explore.contents import VIEWS, Contents, NearRows
from munkey.explore.page import render_page
from tests.explore.browser import opened
from tests.explore.conftest import made_contents, write_made_page

PHONE = {"width": 390, "height": 844}
MINUS = "\N{MINUS SIGN}"
LAPTOP = {"width": 1280, "height": 800}
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
        assert (
            tab.locator("#requests svg[role=img] [aria-label=line] path").count() == 4
        )  # models and means
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


def contents_with_changes() -> Contents:
    """Method "one" changes the predictions of the first forgotten picture and of two test pictures.

    The oracle changes the first as "one" does.
    """
    made = made_contents(40, 8)
    predictions = dict(made.predictions)
    for name, positions in (("one", (0, 11, 15)), ("retrain-v", (0,))):
        own = predictions[f"0/rate0.1/{name}"]
        top = own.top.copy()
        for position in positions:
            top[position] = (top[position] + 1) % 3
        predictions[f"0/rate0.1/{name}"] = replace(own, top=top)
    return replace(made, predictions=predictions, classes=["cat", "dog", "horse"])


def test_changed_predictions_are_listed_and_sorted(browser: Any, tmp_path: Path) -> None:
    path = write_page(contents_with_changes(), tmp_path)
    with opened(browser, path, "#a=one") as tab:
        section = tab.locator("#changes")
        words = section.locator(".note").inner_text()
        assert "1 of 8 forgotten pictures; the oracle agrees with 1 of these" in words
        assert "2 of 8 test pictures; the oracle agrees with 0 of these" in words

        def listed() -> list[list[str]]:
            return [row.split("\t") for row in section.locator("tbody tr").all_inner_texts()]

        first = [cell.strip() for cell in listed()[0]]
        assert first[:6] == ["#0", "forgotten", "cat", "cat", "dog ✗", "dog ✗"]
        assert "→" in first[6] and first[6].count("%") == 2
        assert [row[1].strip() for row in listed()] == ["forgotten", "test", "test"]
        section.get_by_label("Sort by").select_option("class")
        assert [row[2].strip() for row in listed()] == ["cat", "cat", "horse"]
        section.locator("button[data-sample='22']").click()
        assert tab.locator("#picture figure").get_attribute("data-shown") == "22"
    with opened(browser, path, "#a=two") as tab:
        assert tab.locator("#changes table").count() == 0
        assert "0 of 8 forgotten pictures" in tab.locator("#changes .note").inner_text()
    with opened(browser, path, "#a=one", viewport=PHONE) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        region = tab.locator("#changes .wide")
        assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0


ROLES = (  # of what a screen reader reads as a table, though a phone draws it as cards
    "each => [each, ...each.querySelectorAll('tr, th, td')].map(one => one.getAttribute('role'))"
)


@pytest.mark.parametrize("width", [360, 390])
def test_no_table_of_a_phone_scrolls_sideways_and_each_number_has_its_words(
    browser: Any, tmp_path: Path, width: int
) -> None:
    made = made_contents(12, 3)
    designs = []
    for line in made.designs:
        cells = dict.fromkeys(line["cells"], "100.00 ± 10.25")
        share = {
            "shareText": f"45.6 ({MINUS}12.5 to 103.7) †",
            "stored": "weights, training set, val set",
        }
        designs.append(line | {"cells": cells} | share)
    words = "pictures of medium difficulty (10%)"
    requests = [dict(made.requests[0]) | {"label": words}]
    path = write_page(replace(made, designs=designs, requests=requests), tmp_path)
    with opened(browser, path, viewport={"width": width, "height": 800}) as tab:
        tables = tab.locator("main table").all()
        assert len(tables) == 4
        for table in tables:
            region = table.locator("xpath=..")
            assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
            assert set(table.evaluate(ROLES)) >= {"table", "row", "columnheader", "cell"}
            for cell in table.locator("td").all():
                box = cell.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert cell.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        seconds = tab.locator("#designs td", has_text="100.00 ± 10.25").last
        above = seconds.evaluate("each => getComputedStyle(each, '::before').content")
        assert above == '"Seconds"'


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_each_design_has_its_name_and_no_name_lies_on_another(
    browser: Any, tmp_path: Path, viewport: dict[str, int]
) -> None:
    made = made_contents(12, 3)
    crowd = []
    for place in range(14):  # fourteen designs within a point of accuracy, as on digits
        line = dict(made.designs[1])
        crowd.append(line | {"title": f"design {place}", "TA": 98 + place % 4 / 4, "share": place})
    path = tmp_path / "crowd.html"
    path.write_text(render_page(replace(made, designs=crowd)), encoding="utf-8")
    with opened(browser, path, viewport=viewport) as tab:
        names = tab.locator("#designs .names text")
        assert sorted(names.all_text_contents()) == sorted(line["title"] for line in crowd)
        boxes = []
        for name in names.all():
            boxes.append(name.bounding_box())
        for one, other in combinations(boxes, 2):
            are_apart_x = abs(middle(one, "x") - middle(other, "x")) >= width_of_both(one, other)
            are_apart_y = abs(middle(one, "y") - middle(other, "y")) >= 10  # of 12 px letters
            assert are_apart_x or are_apart_y


def middle(box: dict[str, float], axis: str) -> float:
    """The middle of a box along an axis."""
    return box[axis] + box["width" if axis == "x" else "height"] / 2


def width_of_both(one: dict[str, float], other: dict[str, float]) -> float:
    """The distance of the middles of two boxes that touch."""
    return (one["width"] + other["width"]) / 2


def test_choices_and_tables_are_not_cut_off_on_a_laptop(browser: Any, tmp_path: Path) -> None:
    made = made_contents(12, 3)
    words = "10% of the training set, at random"
    requests = []
    for request in (dict(made.requests[0]), {"key": "rate0.2", "case": "", "rate": 0.2}):
        requests.append(request | {"label": words})
    designs = []
    for line in made.designs:
        designs.append(line | {"title": line["name"], "stored": "weights, training set, val set"})
    systems = []
    for each in made.systems:
        systems.append(each | {"title": each["name"]})
    path = tmp_path / "wide.html"
    plain = replace(made, requests=requests, designs=designs, systems=systems)
    path.write_text(render_page(plain), encoding="utf-8")
    with opened(browser, path, viewport=LAPTOP) as tab:
        shown = tab.evaluate(
            "(() => { const select = document.querySelector('select[name=request]');"
            " const full = select.cloneNode(true); full.style.maxWidth = 'none';"
            " select.parentNode.append(full); return [select.offsetWidth, full.offsetWidth] })()"
        )
        assert shown[0] == shown[1]
        for region in tab.locator("#designs div.wide, #requests div.wide").all():
            assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0


def test_the_button_of_b_has_the_color_of_b(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        colors = []
        for side in ("a", "b"):
            pressed = tab.locator(f"#designs td button.{side}[aria-pressed=true]")
            ring = pressed.evaluate("each => getComputedStyle(each).outlineColor")
            line = tab.locator(f"#choices label.{side}")
            assert line.evaluate("each => getComputedStyle(each).borderLeftColor") == ring
            colors.append(ring)
        assert colors[0] != colors[1]


def test_an_audit_without_power_is_not_said_to_be_missing(browser: Any, tmp_path: Path) -> None:
    made = made_contents(12, 3)
    unknown = dict.fromkeys(["share", "share_low", "share_high"]) | {"shareText": "no power"}
    for audited, words in ((True, "An audit was run but"), (False, "No audit was run")):
        path = tmp_path / f"{audited}.html"
        designs = []
        for line in made.designs:
            designs.append(line | unknown | {"audited": audited})
        path.write_text(render_page(replace(made, designs=designs)), encoding="utf-8")
        with opened(browser, path) as tab:
            assert words in tab.locator("#designs").inner_text()


def test_a_stream_shows_means_and_whole_requests(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        view = tab.locator("#requests")
        assert "mean over n = 1 trained models" in view.inner_text()
        ticks = view.locator("[aria-label='x-axis tick label'] text").all_text_contents()
        assert ticks == ["0", "1", "2", "3"]
        assert len(view.locator(".names text").all()) == 2


def write_page(contents: Contents, folder: Path) -> Path:
    """A page of these contents."""
    path = folder / "page.html"
    path.write_text(render_page(contents), encoding="utf-8")
    return path


def test_the_menu_of_errors_names_the_methods_that_are_chosen_now(
    browser: Any, made_page: Path
) -> None:
    with opened(browser, made_page) as tab:
        tab.locator("select[name=a]").select_option("two")
        tab.locator("select[name=b]").select_option("one")
        options = tab.locator("#map .buttons option").all_text_contents()
        assert options[:2] == ["not marked", "before forgetting"]
        assert "two" in options[2]
        assert "one" in options[3]


def test_the_list_of_the_best_remembered_says_whose_seed_it_is(
    browser: Any, tmp_path: Path
) -> None:
    made = made_contents(12, 3)
    answers = dict(made.predictions)
    for key, answer in made.predictions.items():
        answers[key.replace("0/", "1/", 1)] = replace(answer, p_true=answer.p_true[::-1].copy())
    forgotten = {**made.forgotten, "1/rate0.1": np.arange(3, 6, dtype=np.int32)}
    path = write_page(
        replace(made, seeds=[0, 1], predictions=answers, forgotten=forgotten), tmp_path
    )
    best = {}
    for seed, positions in (("0", np.arange(3)), ("1", np.arange(3, 6))):
        kept = answers[f"{seed}/rate0.1/one"].p_true.astype(float)
        kept -= answers[f"{seed}/rate0.1/retrain-v"].p_true
        place = positions[kept[positions].argmax()]
        points = f"{100 * kept[place] / 65535:+.1f}".replace("-", MINUS)
        best[seed] = f"seed {seed}: #{made.samples.ids[place]}, {points}"
    with opened(browser, path) as tab:
        words = tab.locator("#samples").inner_text()
        assert "This list is only for seed 0 (1 of 2)" in words
        assert f"{best['0']}; {best['1']} points" in words


def test_a_picture_that_was_kept_is_not_compared_with_an_oracle_that_saw_it(
    browser: Any, made_page: Path
) -> None:
    with opened(browser, made_page, "#sample=0") as tab:  # forgotten
        assert "minus its oracle's" in tab.locator("#picture table").inner_text()
        for sample, words in (("80", "the oracles were also trained on it"), ("78", "No model")):
            tab.locator("input[name=sample]").fill(sample)
            tab.keyboard.press("Enter")
            assert "minus its oracle's" not in tab.locator("#picture table").inner_text()
            assert words in tab.locator("#picture").inner_text()


def test_bold_is_the_lowest_gap_as_in_the_main_table_and_nothing_else(
    browser: Any, tmp_path: Path
) -> None:
    made = made_contents(12, 3)
    designs = []
    for line in made.designs:
        designs.append(line | {"bold": line["name"] == "two", "kind": "exact"})
    with opened(browser, write_page(replace(made, designs=designs), tmp_path)) as tab:
        bold = tab.evaluate(
            "[...document.querySelectorAll('#designs tbody td, #designs tbody td *')].filter("
            "each => getComputedStyle(each).fontWeight > 500).map(each => each.textContent)"
        )
        assert bold == [designs[-1]["cells"]["Avg Gap"]]
        assert "Bold: the lowest Avg Gap" in tab.locator("#designs").inner_text()
        assert "exactly and therefore equal" in tab.locator("#designs").inner_text()


def test_a_neighbor_that_moved_up_is_told_from_the_chosen_one_without_color(
    browser: Any, tmp_path: Path
) -> None:
    made = made_contents(12, 3)
    before = made.near["full"]
    ids = np.roll(before.ids.reshape(12, 4), -1, axis=1)  # each moves up by one place
    near = {"full": before, "0/rate0.1": NearRows(ids.ravel(), before.cosines, 4)}
    with opened(browser, write_page(replace(made, near=near), tmp_path), "#sample=0") as tab:
        moved = tab.locator("#neighbors .two .sample.new")
        assert moved.count() == 1
        assert "moved up into the first 2" in moved.inner_text()
        assert moved.evaluate("each => getComputedStyle(each).borderTopStyle") == "double"
        chosen = tab.locator("#samples .kept [aria-pressed=true], #neighbors [aria-pressed=true]")
        style = (
            "each => [getComputedStyle(each).outlineStyle, getComputedStyle(each).borderTopStyle]"
        )
        outline, border = chosen.first.evaluate(style)
        assert outline == "solid"
        assert border != "double"


def test_the_axis_of_accuracy_ends_at_100_and_advice_names_its_request(
    browser: Any, tmp_path: Path
) -> None:
    made = made_contents(12, 3)
    small = {"key": "rate0.02", "label": "2%", "case": "", "rate": 0.02}
    designs = []
    for line in made.designs:
        designs.append(line | {"request": "rate0.02", "TA": 99.0, "TA_sd": 4.0})
    advice = "Deploy one (`make audits`)."
    requests = [made.requests[0], small]
    path = write_page(replace(made, designs=designs, requests=requests, advice=advice), tmp_path)
    with opened(browser, path, "#request=rate0.02") as tab:
        ticks = tab.locator("#designs [aria-label='x-axis tick label'] text").all_text_contents()
        assert max(map(float, ticks)) == 100
        words = tab.locator("#designs .advice").inner_text()
        assert words == "Deploy one (make audits). These numbers are for the 10% request."
        assert tab.locator("#designs .advice code").inner_text() == "make audits"


def test_a_mark_under_the_pointer_says_what_it_is(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page) as tab:
        tab.locator("#designs [aria-label=dot] path").nth(1).hover(force=True)
        assert "one: test accuracy" in tab.locator("#designs [aria-label=tip]").text_content()
        columns = tab.locator("#samples svg.clickable")
        columns.scroll_into_view_if_needed()
        columns.hover(position={"x": 60, "y": 150})
        assert "after A (one)" in tab.locator("#samples [aria-label=tip]").text_content()


def test_the_bar_of_choices_covers_the_outline_of_a_card(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page, viewport=LAPTOP) as tab:
        bar = tab.locator("#choices").bounding_box()
        card = tab.locator("#samples .kept [aria-pressed=true]").first
        outline = card.evaluate("each => parseFloat(getComputedStyle(each).outlineWidth)")
        assert bar["x"] <= card.bounding_box()["x"] - outline


def luminance(color: str) -> float:
    """The relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    channels = np.array([int(each) for each in color[4:-1].split(",")]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_in_dark_mode_no_class_is_dim(browser: Any, tmp_path: Path) -> None:
    made = replace(made_contents(12, 3), classes=[f"class {label}" for label in range(10)])
    path = write_page(replace(made, counts={}, correct={}), tmp_path)
    with opened(browser, path, color_scheme="dark") as tab:
        colors = tab.evaluate(
            "[...document.querySelectorAll('#map .legend path')].map("
            "each => getComputedStyle(each).fill)"
        )
        back = luminance(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(colors)) == 10
    for color in colors:
        assert (luminance(color) + 0.05) / (back + 0.05) >= 6, color


def test_a_phone_shows_what_decides_without_scrolling(browser: Any, made_page: Path) -> None:
    with opened(browser, made_page, viewport=PHONE) as tab:
        loss = tab.locator("#samples .by-class td").nth(1)
        box = loss.bounding_box()
        assert f"A {MINUS} before" in loss.get_attribute("data-head")
        assert box["x"] + box["width"] <= PHONE["width"]
        columns = tab.locator("#samples .columns")
        columns.evaluate("each => { each.scrollLeft = 100 }")
        axis = columns.locator(".axis").bounding_box()
        assert axis["x"] == columns.bounding_box()["x"]
        assert columns.locator(".axis text").last.text_content().startswith("↑ probability")


def test_a_line_is_spoken_of_only_where_one_is_shown(
    browser: Any, made_page: Path, tmp_path: Path
) -> None:
    with opened(browser, made_page) as tab:
        assert "line should stay level" in tab.locator("#requests").inner_text()
    path = write_page(replace(made_contents(12, 3), streams=[]), tmp_path)
    with opened(browser, path) as tab:
        assert "line" not in tab.locator("#requests").inner_text()


def test_without_pictures_there_are_ids_and_every_view_still_draws(
    browser: Any, tmp_path: Path
) -> None:
    with opened(browser, write_page(replace(made_contents(12, 3), pictures=None), tmp_path)) as tab:
        assert tab.locator(".picture").count() == 0
        assert "data:image" not in tab.content()
        assert "no pictures" in tab.locator(".privacy").first.inner_text()
        assert tab.locator("#samples .kept .sample").first.inner_text().startswith("#")
        for view in VIEWS:
            assert tab.locator(f"#{view.name} .body > *").count() > 0


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_the_page_in_the_docs_draws_and_scrolls_nowhere_sideways(browser: Any, width: int) -> None:
    page = Path(__file__).parents[2] / "docs/results/default/explore/digits.html"
    assert page.stat().st_size < 3e6
    with opened(browser, page, viewport={"width": width, "height": 800}) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        for table in tab.locator("main table").all():
            region = table.locator("xpath=..")
            assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
        words = tab.locator(".looks-at").all_inner_texts()
        # Made by this code, but before changed predictions had a view of their own.
        assert words == [view.looks_at for view in VIEWS if view.name != "changes"]


def test_firefox_draws_both_methods_and_the_map(made_page: Path, tmp_path: Path) -> None:
    program = shutil.which("firefox") or shutil.which("firefox-esr")
    if program is None:
        pytest.skip("no Firefox is installed: apt-get install firefox-esr")
    picture = tmp_path / "page.png"
    options = ["--headless", "--no-remote", "--profile", str(tmp_path), "--window-size=1280,6000"]
    command = [program, *options, f"--screenshot={picture}", made_page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    # A, B, and the symbols of the third class, which only the map has.
    for color in ((0, 114, 178), (193, 79, 0), (0, 158, 115)):
        distance = np.abs(pixels.astype(int) - color).sum(axis=2)
        assert (distance < 60).sum() > 300, color


def test_5000_samples_do_not_hang(browser: Any) -> None:
    with opened(browser, write_made_page(5000, 500)) as tab:
        for name, value in (("class", "1"), ("class", ""), ("a", "two")):
            start = time.perf_counter()
            tab.locator(f"select[name={name}]").select_option(value)
            assert time.perf_counter() - start < HANG
            print(name, value, tab.locator("html").get_attribute("data-selection-ms"), "ms")
