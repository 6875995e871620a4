"""One page for each object of the reference, and notebooks as pages, made while pages are built.

``api.md`` says which objects there are and in which groups; here each of its directives becomes a
page of its own under ``reference/``, and the page itself a table of contents with one sentence for
each. Notebooks become pages under ``notebooks/``, beside a copy to download.
"""

import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sphinx.application import Sphinx

import undertow as ut

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"
NOTEBOOKS = HERE.parent / "notebooks"
SHOWN = HERE / "notebooks"
_BLOCK = re.compile(r"^```\{eval-rst\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GROUP = re.compile(r"^(?P<title>[A-Z][^\n]*)\n-{4,}$", re.MULTILINE)
_OBJECT = re.compile(
    r"^\.\. auto(?P<kind>class|function|module):: (?P<name>\S+)\n(?P<options>(?:   .*\n)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Entry:
    """An object of the reference: its directive, its page and what it is in a sentence."""

    kind: str
    name: str
    options: str
    page: str

    @property
    def short(self) -> str:
        """The name as it is written after ``import undertow as ut``, or its last part."""
        return self.name if "." not in self.name else self.name.rsplit(".", 1)[1]

    @property
    def sentence(self) -> str:
        """The first sentence of the docstring."""
        if self.kind == "module":
            value: object = importlib.import_module(self.name)
        elif "." in self.name:
            home, short = self.name.rsplit(".", 1)
            value = getattr(importlib.import_module(home), short)
        else:
            value = getattr(ut, self.name)
        first = (value.__doc__ or "").strip().split("\n\n")[0]
        return " ".join(first.split()).replace("|", r"\|").replace("*", r"\*")


def entries(text: str) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the groups of ``api.md`` with their objects; no two pages differ in case only."""
    directives = _BLOCK.search(text)
    if directives is None:
        raise ValueError("docs/api.md has no block of directives")
    block, taken = directives[1], set()
    titles = list(_GROUP.finditer(block))
    for title, after in zip(titles, [*titles[1:], None], strict=True):
        group = []
        part = block[title.end() : after.start() if after else len(block)] + "\n"
        for each in _OBJECT.finditer(part):
            page = each["name"].rsplit(".", 1)[-1].lower()
            if each["kind"] == "class" and page in _functions(block):
                page += "-class"
            if page in taken:
                page = each["name"].lower().replace(".", "-")
            taken.add(page)
            group.append(Entry(each["kind"], each["name"], each["options"], page))
        yield title["title"], group


def _functions(block: str) -> set[str]:
    """Return the last parts of the names of all functions, in lower case."""
    return {
        each["name"].rsplit(".", 1)[-1].lower()
        for each in _OBJECT.finditer(block)
        if each["kind"] == "function"
    }


def write_pages(app: Sphinx) -> None:
    """Write the pages of objects and notebooks that are missing or out of date."""
    wanted = {}
    for _, group in entries((HERE / "api.md").read_text("utf-8")):
        for entry in group:
            title = entry.short
            wanted[REFERENCE / f"{entry.page}.rst"] = (
                f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: undertow\n\n"
                f".. auto{entry.kind}:: {entry.name}\n{entry.options}\n"
                f"Back to :doc:`the reference </api>`, or to :doc:`the guides </guides/index>`.\n"
            )
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        wanted[SHOWN / f"{path.stem}.md"] = notebook_page(path)
        wanted[SHOWN / path.name] = path.read_text("utf-8")
    for folder in (REFERENCE, SHOWN):
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            if old not in wanted:
                old.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def notebook_page(path: Path) -> str:
    """Return a notebook as a page: prose as it stands, code in blocks, a link to the file."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"]).rstrip()
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        if number == 0:
            parts.append(f"{{download}}`Download this notebook <{path.name}>`.")
    return "\n\n".join(parts) + "\n"


def list_objects(app: Sphinx, page: str, source: list[str]) -> None:
    """Turn the directives of ``api.md`` into a table of contents by group."""
    if page != "api":
        return
    parts = []
    for title, group in entries(source[0]):
        lines = [f"- [`{e.short}`](reference/{e.page}.rst): {e.sentence}" for e in group]
        toctree = "\n".join(f"{e.short} <reference/{e.page}>" for e in group)
        body = "\n".join(lines)
        parts.append(f"## {title}\n\n{body}\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n")
    source[0] = _BLOCK.sub(lambda _: "\n".join(parts), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before they are looked for."""
    app.connect("config-inited", lambda app, config: write_pages(app))
    app.connect("source-read", list_objects, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
