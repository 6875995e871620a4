"""The whole path in a real browser: light, dark, narrow; keyboard, back button, two tabs."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import undertow as ut
from tests.studio.browsing import Tab, chromium, studio

CANARY = 46368
"""A number of steps that no page may show."""

LOOKS: dict[str, Any] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "narrow": {"viewport": {"width": 360, "height": 740}, "reduced_motion": "reduce"},
}


def write_steps(path: Path, rows: int) -> None:
    """Write a table of steps of four persons, its first value the canary."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=(0, 1))
    each = rows // 4
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["who", "at", "steps"])
        for person in range(4):
            for step, active in enumerate(chain.simulate(each, seed=person)):
                out.writerow([f"w{person}", step, CANARY if active == 1 else 0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("studio")
    write_steps(made / "steps.csv", 10_000)
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=(False, True))
    ut.Ledger(made / "year.db", dataset="w25", model=chain, limit=1.0, memory=False)
    (made / "broken.parquet").write_bytes(b"PAR1 this is none PAR1")
    (made / "hostile.csv").write_text('"<script>alert(1)</script>",t\n0,1\n1,2\n', encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def browser():
    place = chromium()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def running(folder):
    with studio("steps.csv", "--ledger", "year.db", "--dataset", "w25", folder=folder) as found:
        yield found


@pytest.fixture(scope="module")
def state(browser, running):
    """Return the cookie of the one browser that has opened the studio."""
    context = browser.new_context()
    context.new_page().goto(running.first)
    found = context.storage_state()
    context.close()
    return found


@pytest.fixture
def tabs(browser, running, state):
    """Return how to open a tab with some look; afterwards nothing may have gone wrong in any."""
    opened, contexts = [], []

    def make(**look):
        context = browser.new_context(storage_state=state, **look)
        contexts.append(context)
        opened.append(Tab(context, running.base))
        return opened[-1]

    yield make
    troubles = [trouble for tab in opened for trouble in tab.troubles]
    for context in contexts:
        context.close()
    assert not troubles


@pytest.mark.parametrize("name", ["light"])
def test_the_whole_path_on_activity(tabs, name):
    tab = tabs(**LOOKS[name])
    tab.open("/")
    tab.check(f"{name}-1-start")
    tab.press("Open A week of activity")
    tab.headed("Dependence model")
    tab.check(f"{name}-2-depends")
    tab.press("Choose the query")
    tab.headed("Query and adversary")
    tab.page.get_by_label("Limit on leakage").last.fill("0.8")
    tab.check(f"{name}-3-question")
    tab.press("Compute the plan")
    tab.headed("Plan and cost")
    tab.page.get_by_role("cell", name="quilt", exact=True).or_(
        tab.page.get_by_role("rowheader", name="quilt", exact=True)
    ).first.wait_for()
    tab.page.locator("svg.chart-wide, svg.chart-narrow").first.wait_for(state="attached")
    tab.check(f"{name}-4-costs")
    tab.press("Simulate an attack")
    tab.headed("Simulate an attack")
    before = tab.page.locator("[data-part=guess] .promise").inner_text()
    tab.page.locator(".record-strip button").nth(3).click()
    tab.page.locator(".record-strip button[aria-pressed=true]").first.wait_for()
    tab.page.get_by_label("Published answer about").last.fill("30")
    tab.page.wait_for_function(
        "before => document.querySelector('[data-part=guess] .promise').innerText !== before",
        arg=before,
    )
    tab.check(f"{name}-5-attacker")
    tab.press("Review and release")
    tab.headed("Review and release")
    tab.press("Dry run")
    tab.page.get_by_role("heading", name="Result of the dry run").wait_for()
    tab.check(f"{name}-6-release")
    tab.page.get_by_label("I have read").check()
    tab.press("Release")
    tab.headed("Released")
    tab.check(f"{name}-7-released")
    with tab.page.expect_download() as fetched:
        tab.press("Report as JSON")
    report = json.loads(Path(fetched.value.path()).read_text())
    assert report
    tab.press("One-page statement")
    tab.page.get_by_role("heading", level=1).wait_for()
    tab.check(f"{name}-8-statement")


def test_ones_own_table_is_released_and_no_page_shows_a_record(tabs, folder):
    """Reload, back button and a second tab in the middle change nothing."""
    tab = tabs()
    tab.open("/")
    tab.press("Use steps.csv")
    tab.headed("Columns of the table")
    tab.page.get_by_label("Record", exact=True).select_option("steps")
    tab.page.get_by_label("Person", exact=True).select_option("who")
    tab.page.get_by_label("Time", exact=True).select_option("at")
    tab.page.get_by_label("Step between records").fill("1")
    tab.page.get_by_label("Rule for the state").fill("steps > 0")
    tab.press("Fit the model")
    tab.headed("Dependence model")
    tab.page.reload()
    tab.headed("Dependence model")
    tab.press("Choose the query")
    tab.headed("Query and adversary")
    other = tabs()  # a second tab asks something else
    other.page.goto(tab.page.url)
    other.headed("Query and adversary")
    tab.press("Compute the plan")
    tab.headed("Plan and cost")
    tab.page.go_back()
    tab.headed("Query and adversary")
    tab.page.go_forward()
    tab.headed("Plan and cost")
    tab.open(tab.page.url.removeprefix(tab.base).replace("/costs", "/release"))
    tab.headed("Review and release")
    tab.page.get_by_role("heading", name="Budget of the year").wait_for()
    tab.check("light-own-release")
    tab.press("Dry run")
    tab.page.get_by_role("heading", name="Result of the dry run").wait_for()
    tab.page.get_by_label("I have read").check()
    tab.press("Release")
    tab.headed("Released")
    book = ut.Ledger(folder / "year.db", dataset="w25", create=False, memory=False)
    assert [entry.status for entry in book.entries()] == ["confirmed"]
    assert len(tab.seen) > 10
    assert not [text[:80] for text in tab.seen if str(CANARY) in text]


@pytest.mark.parametrize(
    ("file", "words"),
    [("broken.parquet", "Parquet"), ("hostile.csv", "Columns of the table")],
)
def test_files_that_are_not_what_they_say(tabs, folder, file, words):
    tab = tabs()
    tab.open("/")
    tab.page.get_by_label("A table (.csv, .csv.gz or .parquet)").set_input_files(folder / file)
    tab.press("Read its columns")
    tab.page.get_by_text(words).first.wait_for()
    assert not tab.page.locator("main script").count()
    tab.troubles = [one for one in tab.troubles if "status of 422" not in one]


def test_a_chain_is_drawn_with_the_keyboard_alone(tabs):
    tab = tabs()
    tab.open("/draw/chain?states=3")
    tab.check("light-draw")
    slider = tab.page.get_by_role("slider").first
    slider.focus()
    outline = slider.evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline != "none"
    before = slider.input_value()
    tab.page.keyboard.press("ArrowRight")
    assert slider.input_value() != before
    tab.page.get_by_role("button", name="Use this model").focus()
    tab.page.keyboard.press("Enter")
    tab.headed("Dependence model")


def test_strangers_stay_outside(browser, running):
    context = browser.new_context()
    page = context.new_page()
    for address in (running.base + "/", running.first, f"{running.base}/?token=guess"):
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 403
    name = running.base.replace("127.0.0.1", "attacker.localhost")
    answer = page.goto(f"{name}/")
    assert answer is not None
    assert answer.status == 421
    context.close()
