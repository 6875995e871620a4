"""What every page owes its reader: a next step, names that exist, notebooks that run."""

import importlib
import json
import re
import subprocess
import sys

import pytest

import undertow
from tests.test_docs import PAGES, ROOT, Block, run_python
from undertow import diagnostics, integrations, models

NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
# Pages that are lists or records of something, and so have no next step.
LISTS = (
    "docs/adr/",
    "docs/benchmarks.md",
    "docs/changelog.md",
    "docs/references.md",
    "docs/vectors/",
)
LINK = re.compile(r"\]\([^)\s]+\)|\{(?:doc|func|class)\}`[^`]+`")
THEOREMS = (ROOT / "docs" / "theorems.md").read_text("utf-8")


def documented():
    return [page for page in PAGES if page.startswith("docs/") and not page.startswith(LISTS)]


@pytest.mark.parametrize("page", documented())
def test_page_ends_with_a_next_step(page):
    text = (ROOT / page).read_text("utf-8")
    # the navigation is no part of what is read, and the reference ends its pages itself
    text = re.sub(r"^```\{(toctree|eval-rst)\}.*?^```$", "", text, flags=re.M | re.S)
    last = "\n".join(text.rstrip().splitlines()[-6:])
    assert LINK.search(last), f"{page} ends without a link to go on with"


def test_every_theorem_has_its_code_and_its_test():
    rows = [line.split("|") for line in THEOREMS.splitlines() if "`tests/" in line and "|" in line]
    assert len(rows) >= 25
    for _, says, proof, code, test, _ in rows:
        name = code.strip().strip("`")
        home, _, last = name.rpartition(".")
        assert callable(getattr(importlib.import_module(home), last)), name
        assert (ROOT / test.strip().strip("`")).is_file(), test
        page, _, section = re.search(r"\]\(([^)#]+)(#?)([^)]*)\)", proof).groups()
        target = (ROOT / "docs" / page).read_text("utf-8")
        headings = re.findall(r"^#+ (.+)$", target, re.MULTILINE)
        anchors = {
            re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
        }
        assert not section or section in anchors, f"{says}: no section #{section} in {page}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "notebooks" / name).read_text("utf-8"))
    assert notebook["nbformat"] == 4
    namespace = {"__name__": "__notebook__"}
    for number, cell in enumerate(notebook["cells"]):
        assert cell["cell_type"] in {"code", "markdown"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "notebooks are kept without outputs"
            block = Block("python", "".join(cell["source"]) + "\n", 1, False)
            run_python(block, namespace, f"{name}, cell {number}")


def test_every_public_object_has_a_page():
    listed = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = set(re.findall(r"^\.\. auto(?:class|function):: (\S+)$", listed, re.MULTILINE))
    assert set(undertow.__all__) - named == {"__version__"}
    for module in (diagnostics, integrations, models):
        assert {f"{module.__name__}.{name}" for name in module.__all__} <= named


def test_there_are_three_notebooks():
    assert NOTEBOOKS == ["activity.ipynb", "existing-epsilon.ipynb", "family.ipynb"]


def test_a_spelling_mistake_is_noticed(tmp_path):
    (tmp_path / "page.md").write_text("recieve\n")
    command = [sys.executable, "-m", "codespell_lib", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0


FITTED = re.compile(
    r"undertow fit (\S+)[^\n$]*--public|\.fit\((?:ut\.Data\()?\"?([\w.]+)[^\n]*public=True"
)
RELEASED = re.compile(r"undertow release (\S+)|ut\.release\(\w+, (?:ut\.Data\()?\"?([\w.]+)")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_declares_public_what_it_releases(page):
    """The records that are fitted as public are others than those that are released."""
    text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
    fitted, released = (
        {one or other for one, other in pattern.findall(text)} for pattern in (FITTED, RELEASED)
    )
    assert not fitted & released


PLACE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:c|json|py|toml|txt))`")
GROUPS = ("undertow.attackers", "undertow.commands")  # entry points
DOTTED = re.compile(r"`(undertow(?:_papers|_studio)?(?:\.\w+)+)(?:\([^`]*\))?`")
HOMES = (ROOT, ROOT / "src", ROOT / "src" / "undertow")


def missing_names(text):
    """Yield the files, modules and attributes that a text names and that do not exist."""
    for place in PLACE.findall(text):
        if not any((home / place).exists() for home in HOMES):
            yield place
    names = {*DOTTED.findall(text)} - {*GROUPS}
    yield from (name for name in sorted(names) if value_of(name) is None)


def value_of(name):
    """Return the module or the attribute of a dotted name, None if there is none."""
    home, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(value_of(home), last, None) if home else None


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_object_that_a_page_names_exists(page):
    assert not list(missing_names((ROOT / page).read_text("utf-8")))


def test_a_name_that_does_not_exist_is_noticed():
    assert list(missing_names("`bounds/nowhere.py` and `undertow.nothing.at_all`")) == [
        "bounds/nowhere.py",
        "undertow.nothing.at_all",
    ]
