"""Citations and bibliography agree: no unknown key, no unused one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)
KEY = r"[a-z]+(?:19|20)\d\d[a-z]?"
CITATION = re.compile(rf"\[({KEY}(?:[,;] *{KEY})*)\]")
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "src/**/*.py")
    for page in ROOT.glob(pattern)
    if "_build" not in page.parts
]


def entries():
    return ENTRY.findall((ROOT / "docs/references.bib").read_text("utf-8"))


def cited():
    """Return the first place that cites each key."""
    places: dict[str, str] = {}
    for page in PAGES:
        for found in CITATION.finditer(page.read_text("utf-8")):
            for key in re.findall(KEY, found[1]):
                places.setdefault(key, page.relative_to(ROOT).as_posix())
    return places


def test_every_cited_key_is_in_the_bibliography():
    unknown = {key: place for key, place in cited().items() if key not in entries()}
    assert not unknown


def test_every_entry_is_cited():
    assert not set(entries()) - set(cited())


def test_entries_are_sorted_and_unique():
    assert entries() == sorted(set(entries()))
