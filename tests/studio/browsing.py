"""A real studio in a process of its own, and a real browser that has opened it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("src", "studio/src", "papers/src"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 120_000.0
"""Milliseconds after which a page that does not come is a failure: many times what it takes."""

SHOTS = os.environ.get("UNDERTOW_SHOTS")
"""A folder for screenshots of every page that is visited, for whoever wants to look at them."""


def chromium() -> str:
    """Return where Chromium is; without it a test is skipped, and fails in CI."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium, where it must not be missing: run scripts/system-deps")
        pytest.skip("there is no Chromium here: run scripts/system-deps")
    return CHROMIUM


class Running:
    """A studio that was started by its command: its first address, and how to end it."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        command = [sys.executable, "-c", "from undertow.cli import main; main()", "studio"]
        self.process = subprocess.Popen(
            [*command, "--no-browser", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
            env=os.environ | {"PYTHONPATH": SOURCES, "UNDERTOW_STATE": str(folder / "state")},
        )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)
        assert found is not None, said + self.process.stdout.read()
        self.first = found[0]
        self.base = self.first.partition("/?")[0]

    def end(self, how: signal.Signals = signal.SIGINT) -> str:
        """End it; return all that it said meanwhile."""
        self.process.send_signal(how)
        said, _ = self.process.communicate(timeout=60)
        return str(said)


@contextmanager
def studio(*arguments: str, folder: Path) -> Iterator[Running]:
    """Run a studio for as long as it is needed."""
    running = Running(*arguments, folder=folder)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()


class Tab:
    """A page of the browser that writes down what must not happen: errors, requests elsewhere."""

    def __init__(self, context: Any, base: str) -> None:
        self.page, self.base = context.new_page(), base
        self.troubles: list[str] = []
        self.seen: list[str] = []  # addresses, and all that the pages behind them say
        self.page.set_default_timeout(PATIENCE)
        self.page.set_default_navigation_timeout(PATIENCE)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.base + "/", "data:", "blob:")):
            self.troubles.append(f"request to {request.url}")

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def headed(self, words: str) -> None:
        """Wait for the page with a heading, through the pages that say how far the work is."""
        self.page.get_by_role("heading", name=words, level=1).wait_for()
        self.seen += [self.page.url, self.page.content()]

    def press(self, words: str) -> None:
        """Press the button, or follow the link, that is called so."""
        found = self.page.get_by_role("button", name=words, exact=True)
        if not found.count():
            found = self.page.get_by_role("link", name=words, exact=True)
        found.first.click()

    def check(self, name: str) -> None:
        """Run the accessibility checker on the page; keep a picture where one is wanted."""
        from axe_playwright_python.sync_playwright import Axe

        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)
        found = Axe().run(self.page)
        told = [
            f"{one['id']}: {one['help']} at {one['nodes'][0]['target']}"
            for one in found.response["violations"]
        ]
        assert not told, f"{name}: {told}"
        wide = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{name}: {wide} pixels stick out on the right"
