"""How long a selection takes on a page of 5,000 samples: `python -m benchmarks.explore`.

Needs Chromium.
"""

import statistics

from tests.explore.browser import launched, opened
from tests.explore.conftest import write_random_page

REPEATS = 15
CHANGES = {  # the selection that is timed and the one before it, as arguments of page.js's `choose`
    "a picture": ('{sample: "20"}', '{sample: "10"}'),
    "a method": ('{a: "two"}', '{a: "one"}'),
    "a class": ('{class: "1"}', '{class: ""}'),
    "all classes": ('{class: ""}', '{class: "1"}'),
    "an area of the map": ('{area: "-1,-1,2,2"}', '{area: ""}'),
    "the whole map": ('{area: ""}', '{area: "-1,-1,2,2"}'),
    "marks of errors": ('{wrong: "a"}', '{wrong: ""}'),
}


def main() -> None:
    """Print the median time and quartiles of each kind of selection, including layout."""
    page = write_random_page(count=5000, forgotten=500)
    print("| selection | median [ms] | quartiles [ms] | n |\n|---|---|---|---|")
    with launched() as browser, opened(browser, page) as tab:
        for name, (selection, earlier_selection) in CHANGES.items():
            times = []
            for _ in range(REPEATS):
                tab.evaluate(f"choose({earlier_selection})")
                tab.evaluate(f"choose({selection})")
                times.append(float(tab.locator("html").get_attribute("data-selection-ms")))
            low, median, high = statistics.quantiles(times, n=4)
            print(f"| {name} | {median:.0f} | {low:.0f} – {high:.0f} | {REPEATS} |")


if __name__ == "__main__":
    main()
