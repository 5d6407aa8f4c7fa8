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
from tests.explore.conftest import random_contents, write_random_page

PHONE = {"width": 390, "height": 844}
MINUS = "\N{MINUS SIGN}"
LAPTOP = {"width": 1280, "height": 800}
# seconds after which a selection counts as hanging; benchmarks/explore.py measures speed
HANG = 20.0


def test_each_view_draws_without_an_error_and_loads_no_other_file(
    browser: Any, random_page: Path
) -> None:
    with opened(browser, random_page) as tab:
        for view in VIEWS:
            section = tab.locator(f"#{view.name}")
            assert section.locator(".looks-at").inner_text() == view.looks_at
            assert section.locator(".body > *").count() > 0
        assert tab.locator("#designs svg[role=img], #samples svg[role=img]").count() == 2
        lines = tab.locator("#requests svg[role=img] [aria-label=line] path")
        assert lines.count() == 4  # models and means
        assert tab.locator("#map canvas").get_attribute("aria-label").startswith("120 pictures")
        assert "forgotten" in tab.locator(".privacy").first.inner_text()


def test_a_click_on_a_sample_changes_the_picture(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        before = tab.locator("#picture figure").get_attribute("data-shown")
        other = tab.locator(f"#samples .kept .sample:not([data-sample='{before}'])").first
        sample = other.get_attribute("data-sample")
        other.click()
        assert sample != before
        assert tab.locator("#picture figure").get_attribute("data-shown") == sample
        assert tab.locator("#neighbors .two .sample").first.get_attribute("data-sample") == sample
        assert f"sample={sample}" in tab.url


def test_a_click_on_the_columns_chooses_the_sample_below(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        tab.locator("#samples input[type=range]").focus()
        tab.keyboard.press("End")
        last = tab.locator("#picture figure").get_attribute("data-shown")
        box = tab.locator("#samples svg.clickable").bounding_box()
        tab.mouse.click(box["x"] + 60, box["y"] + box["height"] / 2)
        assert tab.locator("#picture figure").get_attribute("data-shown") != last


def test_the_keyboard_chooses_a_sample_and_a_method(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        button = tab.locator("#samples .kept .sample").nth(3)
        sample = button.get_attribute("data-sample")
        button.focus()
        tab.keyboard.press("Enter")
        assert tab.locator("#picture figure").get_attribute("data-shown") == sample
        assert tab.locator("#announced").inner_text() == f"picture #{sample} is shown"
        tab.locator("#designs button[aria-label$='as A']").last.focus()
        tab.keyboard.press("Space")
        assert "a=two" in tab.url


def test_the_address_restores_the_choices(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        tab.locator("select[name=class]").select_option("1")
        tab.locator("select[name=a]").select_option("two")
        tab.locator("#samples .kept .sample").nth(1).click()
        sample_text = tab.locator("#samples .one").inner_text()
        address = tab.url
    fragment = address.partition("#")[2]
    with opened(browser, random_page, f"#{fragment}") as tab:
        assert tab.locator("select[name=class]").input_value() == "1"
        assert tab.locator("select[name=a]").input_value() == "two"
        assert tab.locator("#samples .one").inner_text() == sample_text


@pytest.mark.parametrize(
    "fragment", ["#sample=99999&class=77&a=nobody&area=1,2", "#a=<script>", "#%"]
)
def test_an_address_with_unknown_values_shows_the_defaults(
    browser: Any, random_page: Path, fragment: str
) -> None:
    with opened(browser, random_page, fragment) as tab:
        assert tab.locator("select[name=a]").input_value() == "one"
        assert tab.locator("select[name=class]").input_value() == ""


def test_markup_in_names_is_shown_as_text(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        tab.locator("select[name=a]").select_option("two")
        tab.locator("#samples .kept .sample").first.click()
        assert tab.title() != "owned"
        assert tab.locator("img").count() == 0
        assert "<script>" in tab.locator("#samples .by-class").inner_text()  # as text


def test_an_area_of_the_map_selects_in_the_other_views(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
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
def test_a_phone_does_not_scroll_sideways(browser: Any, random_page: Path, scheme: str) -> None:
    with opened(browser, random_page, viewport=PHONE, color_scheme=scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def contents_with_changes() -> Contents:
    """Method "one" changes the predictions of the first forgotten picture and of two test pictures.

    The oracle changes the first as "one" does.
    """
    contents = random_contents(40, 8)
    predictions = dict(contents.predictions)
    for name, positions in (("one", (0, 11, 15)), ("retrain-v", (0,))):
        before = predictions[f"0/rate0.1/{name}"]
        top = before.top.copy()
        for position in positions:
            top[position] = (top[position] + 1) % 3
        predictions[f"0/rate0.1/{name}"] = replace(before, top=top)
    return replace(contents, predictions=predictions, classes=["cat", "dog", "horse"])


def test_changed_predictions_are_listed_and_sorted(browser: Any, tmp_path: Path) -> None:
    path = write_page(contents_with_changes(), tmp_path)
    with opened(browser, path, "#a=one") as tab:
        section = tab.locator("#changes")
        words = section.locator(".note").inner_text()
        assert "1 of 8 forgotten pictures" in words
        assert "2 of 8 test pictures" in words

        def read_column(place: int) -> list[str]:
            rows = section.locator("tbody tr").all_inner_texts()
            return [row.split("\t")[place].strip() for row in rows]

        first = [column[0] for column in map(read_column, range(7))]
        assert first[:6] == ["#0", "forgotten", "cat", "cat", "dog ✗", "dog ✗"]
        assert "→" in first[6]
        assert first[6].count("%") == 2
        assert read_column(1) == ["forgotten", "test", "test"]
        section.get_by_label("Sort by").select_option("class")
        assert read_column(2) == ["cat", "cat", "horse"]
        section.locator("button[data-sample='22']").click()
        assert tab.locator("#picture figure").get_attribute("data-shown") == "22"
    with opened(browser, path, "#a=two") as tab:
        assert tab.locator("#changes table").count() == 0
        assert "0 of 8 forgotten pictures" in tab.locator("#changes .note").inner_text()
    with opened(browser, path, "#a=one", viewport=PHONE) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        region = tab.locator("#changes .wide")
        assert region.evaluate("node => node.scrollWidth - node.clientWidth") <= 0


# the roles of a table that a phone draws as cards and a screen reader reads as a table
ROLES = (
    "node => [node, ...node.querySelectorAll('tr, th, td')].map(one => one.getAttribute('role'))"
)


@pytest.mark.parametrize("width", [360, 390])
def test_no_table_of_a_phone_scrolls_sideways_and_each_number_has_its_heading(
    browser: Any, tmp_path: Path, width: int
) -> None:
    contents = random_contents(12, 3)
    designs = []
    for line in contents.designs:
        cells = dict.fromkeys(line["cells"], "100.00 ± 10.25")
        share = {
            "shareText": f"45.6 ({MINUS}12.5 to 103.7) †",
            "stored": "weights, training set, val set",
        }
        designs.append(line | {"cells": cells} | share)
    words = "pictures of medium difficulty (10%)"
    requests = [dict(contents.requests[0]) | {"label": words}]
    path = write_page(replace(contents, designs=designs, requests=requests), tmp_path)
    with opened(browser, path, viewport={"width": width, "height": 800}) as tab:
        tables = tab.locator("main table").all()
        assert len(tables) == 4
        for table in tables:
            region = table.locator("xpath=..")
            assert region.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
            assert set(table.evaluate(ROLES)) >= {"table", "row", "columnheader", "cell"}
            for cell in table.locator("td").all():
                box = cell.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert cell.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        seconds = tab.locator("#designs td", has_text="100.00 ± 10.25").last
        above = seconds.evaluate("node => getComputedStyle(node, '::before').content")
        assert above == '"Seconds"'


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_each_design_has_a_name_and_no_two_names_overlap(
    browser: Any, tmp_path: Path, viewport: dict[str, int]
) -> None:
    contents = random_contents(12, 3)
    crowd = []
    for place in range(14):  # fourteen designs within a point of accuracy, as on digits
        line = dict(contents.designs[1])
        crowd.append(line | {"title": f"design {place}", "TA": 98 + place % 4 / 4, "share": place})
    path = tmp_path / "crowd.html"
    path.write_text(render_page(replace(contents, designs=crowd)), encoding="utf-8")
    with opened(browser, path, viewport=viewport) as tab:
        names = tab.locator("#designs .names text")
        assert sorted(names.all_text_contents()) == sorted(line["title"] for line in crowd)
        boxes = []
        for name in names.all():
            boxes.append(name.bounding_box())
        for first, second in combinations(boxes, 2):
            distance_x = abs(middle(first, "x") - middle(second, "x"))
            distance_y = abs(middle(first, "y") - middle(second, "y"))
            are_apart_x = distance_x >= (first["width"] + second["width"]) / 2
            are_apart_y = distance_y >= 10  # of 12 px letters
            assert are_apart_x or are_apart_y


def middle(box: dict[str, float], axis: str) -> float:
    """The middle of a box along an axis."""
    return box[axis] + box["width" if axis == "x" else "height"] / 2


def test_choices_and_tables_are_not_cut_off_on_a_laptop(browser: Any, tmp_path: Path) -> None:
    contents = random_contents(12, 3)
    words = "10% of the training set, at random"
    requests = []
    for request in (dict(contents.requests[0]), {"key": "rate0.2", "case": "", "rate": 0.2}):
        requests.append(request | {"label": words})
    designs = []
    for line in contents.designs:
        designs.append(line | {"title": line["name"], "stored": "weights, training set, val set"})
    systems = []
    for system in contents.systems:
        systems.append(system | {"title": system["name"]})
    path = tmp_path / "wide.html"
    plain = replace(contents, requests=requests, designs=designs, systems=systems)
    path.write_text(render_page(plain), encoding="utf-8")
    with opened(browser, path, viewport=LAPTOP) as tab:
        width, full_width = tab.evaluate(
            "(() => { const select = document.querySelector('select[name=request]');"
            " const full = select.cloneNode(true); full.style.maxWidth = 'none';"
            " select.parentNode.append(full); return [select.offsetWidth, full.offsetWidth] })()"
        )
        assert width == full_width
        for region in tab.locator("#designs div.wide, #requests div.wide").all():
            assert region.evaluate("node => node.scrollWidth - node.clientWidth") <= 0


def test_the_button_of_b_has_the_color_of_b(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        colors = []
        for side in ("a", "b"):
            pressed = tab.locator(f"#designs td button.{side}[aria-pressed=true]")
            ring = pressed.evaluate("node => getComputedStyle(node).outlineColor")
            line = tab.locator(f"#choices label.{side}")
            assert line.evaluate("node => getComputedStyle(node).borderLeftColor") == ring
            colors.append(ring)
        assert colors[0] != colors[1]


def test_an_audit_without_power_is_not_called_missing(browser: Any, tmp_path: Path) -> None:
    contents = random_contents(12, 3)
    unknown = dict.fromkeys(["share", "share_low", "share_high"]) | {"shareText": "no power"}
    for audited, words in ((True, "An audit was run but"), (False, "No audit was run")):
        path = tmp_path / f"{audited}.html"
        designs = []
        for line in contents.designs:
            designs.append(line | unknown | {"audited": audited})
        path.write_text(render_page(replace(contents, designs=designs)), encoding="utf-8")
        with opened(browser, path) as tab:
            assert words in tab.locator("#designs").inner_text()


def test_a_stream_shows_means_and_whole_requests(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
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


def test_the_menu_of_errors_names_the_chosen_methods(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        tab.locator("select[name=a]").select_option("two")
        tab.locator("select[name=b]").select_option("one")
        options = tab.locator("#map .buttons option").all_text_contents()
        assert options[:2] == ["not marked", "before forgetting"]
        assert "two" in options[2]
        assert "one" in options[3]


def test_the_list_of_the_best_remembered_names_its_seed(browser: Any, tmp_path: Path) -> None:
    contents = random_contents(12, 3)
    answers = dict(contents.predictions)
    for key, answer in contents.predictions.items():
        answers[key.replace("0/", "1/", 1)] = replace(answer, p_true=answer.p_true[::-1].copy())
    forgotten = {**contents.forgotten, "1/rate0.1": np.arange(3, 6, dtype=np.int32)}
    path = write_page(
        replace(contents, seeds=[0, 1], predictions=answers, forgotten=forgotten), tmp_path
    )
    best = {}
    for seed, positions in (("0", np.arange(3)), ("1", np.arange(3, 6))):
        difference = answers[f"{seed}/rate0.1/one"].p_true.astype(float)
        difference -= answers[f"{seed}/rate0.1/retrain-v"].p_true
        place = positions[difference[positions].argmax()]
        points = f"{100 * difference[place] / 65535:+.1f}".replace("-", MINUS)
        best[seed] = f"seed {seed}: #{contents.samples.ids[place]}, {points}"
    with opened(browser, path) as tab:
        words = tab.locator("#samples").inner_text()
        assert "only for seed 0 (1 of 2)" in words
        assert f"{best['0']}; {best['1']} points" in words


def test_a_retained_picture_is_not_compared_with_the_oracle_that_was_trained_on_it(
    browser: Any, random_page: Path
) -> None:
    with opened(browser, random_page, "#sample=0") as tab:  # forgotten
        assert "minus its oracle's" in tab.locator("#picture table").inner_text()
        for sample, words in (("80", "also trained on it"), ("78", "No model")):
            tab.locator("input[name=sample]").fill(sample)
            tab.keyboard.press("Enter")
            assert "minus its oracle's" not in tab.locator("#picture table").inner_text()
            assert words in tab.locator("#picture").inner_text()


def test_only_the_lowest_gap_of_the_main_table_is_bold(browser: Any, tmp_path: Path) -> None:
    contents = random_contents(12, 3)
    designs = []
    for line in contents.designs:
        designs.append(line | {"bold": line["name"] == "two", "kind": "exact"})
    with opened(browser, write_page(replace(contents, designs=designs), tmp_path)) as tab:
        bold = tab.evaluate(
            "[...document.querySelectorAll('#designs tbody td, #designs tbody td *')].filter("
            "node => getComputedStyle(node).fontWeight > 500).map(node => node.textContent)"
        )
        assert bold == [designs[-1]["cells"]["Avg Gap"]]
        words = tab.locator("#designs").inner_text()
        assert "Bold: the lowest Avg Gap" in words
        assert "exactly and therefore equal" in words


def test_a_neighbor_that_moved_up_differs_from_the_chosen_one_without_color(
    browser: Any, tmp_path: Path
) -> None:
    contents = random_contents(12, 3)
    before = contents.near["full"]
    ids = np.roll(before.ids.reshape(12, 4), -1, axis=1)  # each moves up by one place
    near = {"full": before, "0/rate0.1": NearRows(ids.ravel(), before.cosines, 4)}
    with opened(browser, write_page(replace(contents, near=near), tmp_path), "#sample=0") as tab:
        moved = tab.locator("#neighbors .two .sample.new")
        assert moved.count() == 1
        assert "moved up into the first 2" in moved.inner_text()
        assert moved.evaluate("node => getComputedStyle(node).borderTopStyle") == "double"
        chosen = tab.locator("#samples .kept [aria-pressed=true], #neighbors [aria-pressed=true]")
        style = (
            "node => [getComputedStyle(node).outlineStyle, getComputedStyle(node).borderTopStyle]"
        )
        outline, border = chosen.first.evaluate(style)
        assert outline == "solid"
        assert border != "double"


def test_the_axis_of_accuracy_ends_at_100_and_advice_names_its_request(
    browser: Any, tmp_path: Path
) -> None:
    contents = random_contents(12, 3)
    small = {"key": "rate0.02", "label": "2%", "case": "", "rate": 0.02}
    designs = []
    for line in contents.designs:
        designs.append(line | {"request": "rate0.02", "TA": 99.0, "TA_sd": 4.0})
    advice = "Deploy one (`make audits`)."
    requests = [contents.requests[0], small]
    path = write_page(
        replace(contents, designs=designs, requests=requests, advice=advice), tmp_path
    )
    with opened(browser, path, "#request=rate0.02") as tab:
        ticks = tab.locator("#designs [aria-label='x-axis tick label'] text").all_text_contents()
        assert max(map(float, ticks)) == 100
        words = tab.locator("#designs .advice").inner_text()
        assert words.startswith("Deploy one (make audits).")
        assert "10% request" in words
        assert tab.locator("#designs .advice code").inner_text() == "make audits"


def test_a_mark_under_the_pointer_is_named(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page) as tab:
        tab.locator("#designs [aria-label=dot] path").nth(1).hover(force=True)
        assert "one: test accuracy" in tab.locator("#designs [aria-label=tip]").text_content()
        columns = tab.locator("#samples svg.clickable")
        columns.scroll_into_view_if_needed()
        columns.hover(position={"x": 60, "y": 150})
        assert "after A (one)" in tab.locator("#samples [aria-label=tip]").text_content()


def test_the_bar_of_choices_covers_the_outline_of_a_card(browser: Any, random_page: Path) -> None:
    with opened(browser, random_page, viewport=LAPTOP) as tab:
        bar = tab.locator("#choices").bounding_box()
        card = tab.locator("#samples .kept [aria-pressed=true]").first
        outline = card.evaluate("node => parseFloat(getComputedStyle(node).outlineWidth)")
        assert bar["x"] <= card.bounding_box()["x"] - outline


def luminance(color: str) -> float:
    """The relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    channels = np.array([int(channel) for channel in color[4:-1].split(",")]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_in_dark_mode_no_class_is_dim(browser: Any, tmp_path: Path) -> None:
    contents = replace(random_contents(12, 3), classes=[f"class {label}" for label in range(10)])
    path = write_page(replace(contents, counts={}, correct={}), tmp_path)
    with opened(browser, path, color_scheme="dark") as tab:
        colors = tab.evaluate(
            "[...document.querySelectorAll('#map .legend path')].map("
            "node => getComputedStyle(node).fill)"
        )
        back = luminance(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(colors)) == 10
    for color in colors:
        assert (luminance(color) + 0.05) / (back + 0.05) >= 6, color


def test_a_phone_shows_the_loss_and_the_axis_without_scrolling(
    browser: Any, random_page: Path
) -> None:
    with opened(browser, random_page, viewport=PHONE) as tab:
        loss = tab.locator("#samples .by-class td").nth(1)
        box = loss.bounding_box()
        assert f"A {MINUS} before" in loss.get_attribute("data-head")
        assert box["x"] + box["width"] <= PHONE["width"]
        columns = tab.locator("#samples .columns")
        columns.evaluate("node => { node.scrollLeft = 100 }")
        axis = columns.locator(".axis").bounding_box()
        assert axis["x"] == columns.bounding_box()["x"]
        assert columns.locator(".axis text").last.text_content().startswith("↑ probability")


def test_the_text_mentions_a_line_only_if_one_is_drawn(
    browser: Any, random_page: Path, tmp_path: Path
) -> None:
    with opened(browser, random_page) as tab:
        assert "line should stay level" in tab.locator("#requests").inner_text()
    path = write_page(replace(random_contents(12, 3), streams=[]), tmp_path)
    with opened(browser, path) as tab:
        assert "line" not in tab.locator("#requests").inner_text()


def test_a_page_without_pictures_shows_ids_and_draws_every_view(
    browser: Any, tmp_path: Path
) -> None:
    with opened(
        browser, write_page(replace(random_contents(12, 3), pictures=None), tmp_path)
    ) as tab:
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
            assert region.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
        words = tab.locator(".looks-at").all_inner_texts()
        assert words == [view.looks_at for view in VIEWS]


def test_firefox_draws_both_methods_and_the_map(random_page: Path, tmp_path: Path) -> None:
    program = shutil.which("firefox") or shutil.which("firefox-esr")
    if program is None:
        pytest.skip("no Firefox is installed: apt-get install firefox-esr")
    picture = tmp_path / "page.png"
    options = ["--headless", "--no-remote", "--profile", str(tmp_path), "--window-size=1280,6000"]
    command = [program, *options, f"--screenshot={picture}", random_page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    # A, B, and the symbols of the third class, which only the map has.
    for color in ((0, 114, 178), (193, 79, 0), (0, 158, 115)):
        distance = np.abs(pixels.astype(int) - color).sum(axis=2)
        assert (distance < 60).sum() > 300, color


def test_5000_samples_do_not_hang(browser: Any) -> None:
    with opened(browser, write_random_page(5000, 500)) as tab:
        for name, value in (("class", "1"), ("class", ""), ("a", "two")):
            start = time.perf_counter()
            tab.locator(f"select[name={name}]").select_option(value)
            assert time.perf_counter() - start < HANG
            print(name, value, tab.locator("html").get_attribute("data-selection-ms"), "ms")
