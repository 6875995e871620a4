"""Charts under a strict content security policy in a real browser: pointer, keyboard, widths."""

import os
import shutil
from pathlib import Path

import pytest

from undertow_studio import charts
from undertow_studio.charts.lines import cost_chart
from undertow_studio.pages.costs import CostLine, Costs

STATIC = Path(charts.__file__).parents[1] / "static"
CHROMIUM = shutil.which("chromium")
POLICY = "default-src 'self'"
COSTS = Costs(
    (0.1, 1.0, 10.0),
    (
        CostLine("exact", "certified", "any", (40.0, 4.0, 0.4)),
        CostLine("<b>lange</b>", "published", "any", (None, 200.0, 20.0)),
    ),
    1.0,
)
PAGE = f"""<!doctype html><html lang="en"><title>Charts</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/charts.css"><script type="module" src="/charts.js"></script>
<h1>Costs</h1>{cost_chart(COSTS)}"""


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is required in CI")
        pytest.skip("no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def opened(browser, width, troubles):
    """Return a page with the chart, served with the policy of the studio."""
    page = browser.new_page(viewport={"width": width, "height": 700})
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def answer(route):
        path = route.request.url.removeprefix("http://studio.test")
        headers = {"Content-Security-Policy": POLICY}
        if path in ("/charts.css", "/charts.js"):
            kind = "text/css" if path.endswith("css") else "text/javascript"
            body = (STATIC / path[1:]).read_text("utf-8")
            route.fulfill(body=body, content_type=kind, headers=headers)
        else:
            route.fulfill(body=PAGE, content_type="text/html", headers=headers)

    page.route("**/*", answer)
    page.goto("http://studio.test/")
    return page


@pytest.mark.parametrize(("width", "kind"), [(1000, "wide"), (360, "narrow")])
def test_values_under_pointer_and_keys(browser, width, kind):
    troubles: list[str] = []
    page = opened(browser, width, troubles)
    chart = page.locator(f"svg.chart-{kind}")
    other = page.locator(f"svg.chart-{'narrow' if kind == 'wide' else 'wide'}")
    assert chart.is_visible()
    assert not other.is_visible()
    box = chart.bounding_box()
    assert box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.wait_for_selector(f"svg.chart-{kind}[tabindex='0']")
    dot = chart.locator("circle[data-y='4.0']").bounding_box()
    page.mouse.move(dot["x"] + 2, dot["y"] + 2)
    shown = chart.locator(".tip-box ~ text").all_text_contents()
    assert shown == ["limit 1", "200  <b>lange</b>", "4  exact"]
    assert chart.locator(".dot.chosen").count() == 2
    assert chart.locator(".crosshair").get_attribute("d").startswith("M")
    page.mouse.move(2, 2)
    assert chart.locator(".tip-box").count() == 0
    chart.focus()
    page.keyboard.press("Home")
    said = page.locator(f"svg.chart-{kind} + p[aria-live]")
    assert said.text_content() == "limit 0.1: exact 40"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert said.text_content() == "limit 10: <b>lange</b> 20; exact 0.4"
    inside = chart.locator(".tip-box").bounding_box()
    assert inside["x"] >= box["x"] - 1
    assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1
    page.keyboard.press("Escape")
    assert chart.locator(".tip-box").count() == 0
    assert not troubles
    page.close()
