"""Rules about the files themselves: one test of the files, one of the public names."""

import ast
import inspect
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

import undertow

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "undertow"
MODULES = sorted(SOURCE.rglob("*.py"))
# Assembled, so that this file does not match itself.
ABSOLUTE = re.compile(
    r"(?<![\w.}>)~-])/(?:" + "|".join(("home", "work", "root", "tmp", "Users")) + r")/"
)
ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)
KEY = r"[a-z]+(?:19|20)\d\d[a-z]?"
CITATION = re.compile(rf"\[({KEY}(?:[,;] *{KEY})*)\]")
THEORY = re.compile(
    r"docs,\s+(?P<page>theory(?:-[a-z]+)?)(?::\s+(?P<names>[A-Za-z0-9][\w -]*(?:, [\w -]+)*))?"
)
PUBLIC = [name for name in undertow.__all__ if not name.startswith("_")]


def text_files():
    """Return the files that are, or would be, under version control and are text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        return []
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return sorted(p for p in paths if p.is_file() and b"\0" not in p.read_bytes())


def by_kind(name):
    """Return the key that puts CONSTANTS before Classes before functions, each by name."""
    return not name.isupper(), not name[0].isupper(), name


@cache
def exported(path):
    """Return the names that a module lists in its __all__."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def absolute_paths():
    for path in text_files():
        text = path.read_text("utf-8")
        for place in ABSOLUTE.finditer(text):
            number = text.count("\n", 0, place.start()) + 1
            yield f"{path.relative_to(ROOT)}:{number}: an absolute path"


def unsorted_names():
    for path in MODULES:
        names = exported(path)
        if names != sorted(set(names), key=by_kind):
            yield f"{path}: __all__ is not sorted"


def missing_places():
    """Paths that the map in ARCHITECTURE.md names, and that are not there."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    tree = text.partition("```text\nsrc/undertow/\n")[2].partition("```")[0]
    places: list[tuple[int, Path]] = [(0, SOURCE)]
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        first = line.split()[0] if line.split() else ""
        named = re.findall(r"\b\w+\.py\b", line)
        if first.endswith(("/", ".py")):  # else the line before goes on
            while len(places) > 1 and places[-1][0] >= indent:
                places.pop()
        if first.endswith("/"):
            places.append((indent, places[-1][1] / first))
        yield from (f"the map names {places[-1][1].name}/{name}" for name in named
                    if not (places[-1][1] / name).is_file())  # fmt: skip
    for name in re.findall(r"`([\w/]+(?:\.py|\.md|/))`", text.partition("```\n")[2]):
        if not any((home / name).exists() for home in (ROOT, SOURCE, ROOT / "docs")):
            yield f"ARCHITECTURE.md names {name}"


def wrong_order():
    """Say where ARCHITECTURE.md has another import order than the linter checks."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    stated = next(block for block in text.split("```") if block.startswith("text\nerrors <"))
    written = [layer.strip() for layer in stated.removeprefix("text").split("<")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    checked = [re.sub("[()]", "", layer) for layer in reversed(layers)]
    if written != checked:
        yield f"ARCHITECTURE.md orders {written}, pyproject.toml {checked}"


def theory_sections():
    """Return the headings and bold leads of each theory page, in lower case."""
    sections = {}
    for page in (ROOT / "docs").glob("theory*.md"):
        text = page.read_text("utf-8").lower()
        leads = re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)
        sections[page.stem] = {*re.findall(r"^#+ (.+)$", text, re.MULTILINE), *leads}
    return sections


def wrong_theory(text):
    """Yield the citations of the theory pages in a text that no section answers to.

    They read "docs, theory", "docs, theory: noisy counts" or "docs, theory-engine: E2, E3".
    """
    sections = theory_sections()
    every = {one for page in sections.values() for one in page}
    for cited in THEORY.finditer(text):
        page, names = cited["page"], cited["names"]
        known = every if page == "theory" and names else sections.get(page)
        if known is None:
            yield cited[0]
            continue
        for name in re.split(r",\s*(?:and )?", names or ""):
            words = re.compile(rf"\b{re.escape(name.strip().lower())}\b")
            if not any(words.search(section) for section in known):
                yield cited[0]


def test_citations_of_the_theory_resolve():
    wrong = {
        f"{path.relative_to(ROOT)}: {cited}"
        for path in ROOT.glob("**/src/**/*.py")
        if not {".venv", "build"} & {*path.relative_to(ROOT).parts}
        for cited in wrong_theory(path.read_text("utf-8"))
    }
    assert not wrong
    assert list(wrong_theory("(docs, theory-engine: E2, E99)"))
    assert list(wrong_theory("(docs, theory-nowhere)"))
    assert list(wrong_theory("docs, theory: no such section."))
    assert not list(wrong_theory("(docs, theory-engine: E2, E3); docs, theory: noisy counts."))


def wrong_citations():
    """Keys that are cited and unknown, listed and never cited, or out of order."""
    entries = ENTRY.findall((ROOT / "docs/references.bib").read_text("utf-8"))
    cited = {
        key: page.relative_to(ROOT).as_posix()
        for pattern in ("*.md", "docs/**/*.md", "**/src/**/*.py")
        for page in ROOT.glob(pattern)
        if not {"_build", ".venv", "build"} & {*page.relative_to(ROOT).parts}
        for citation in CITATION.finditer(page.read_text("utf-8"))
        for key in re.findall(KEY, citation[1])
    }
    yield from (f"{cited[key]} cites {key}" for key in sorted(set(cited) - set(entries)))
    yield from (f"nobody cites {key}" for key in sorted(set(entries) - set(cited)))
    if entries != sorted(set(entries)):
        yield "docs/references.bib is not sorted"


def undocumented():
    for name in PUBLIC:
        value = getattr(undertow, name)
        text = inspect.getdoc(value) or ""
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        if not text.strip():
            yield f"{name} has no docstring"
        elif not inspect.ismodule(value) and not is_error and ">>>" not in text:
            yield f"the docstring of {name} shows no example"


def test_the_files_keep_the_rules():
    places = [*missing_places(), *wrong_order()]
    assert not [*unsorted_names(), *places, *wrong_citations(), *absolute_paths()]
    assert MODULES
    assert any(map(exported, MODULES))
    for folder in ("home/someone", "tmp/x", "root/.cache"):  # would be found
        assert ABSOLUTE.search(f'open("/{folder}/y")')
    assert not ABSOLUTE.search("a fraction such as root/total, or docs/tmp/x")


def test_public_names_are_listed_and_documented():
    assert not list(undocumented())
    assert set(undertow.__all__) <= set(dir(undertow))
    for name in ("diagnostics", "integrations", "mechanisms", "models"):
        assert all(
            hasattr(getattr(undertow, name), each) for each in getattr(undertow, name).__all__
        )
    with pytest.raises(AttributeError, match="no_such_name"):
        undertow.no_such_name  # type: ignore[attr-defined]  # noqa: B018
    functions = {name for name in PUBLIC if inspect.isfunction(getattr(undertow, name))}
    # importing a module of that name would put it in the place of the function
    assert not [name for name in functions if (SOURCE / f"{name}.py").is_file()]
    assert not [name for name in functions if (SOURCE / name).is_dir()]
