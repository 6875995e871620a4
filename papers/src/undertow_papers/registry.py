"""The list of all results, and how one of them is recomputed."""

import re
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, wraps
from hashlib import sha256
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from undertow.errors import InvalidInput
from undertow_papers.findings import Parts, Recomputed

__all__ = ["PAPERS", "Result", "Run", "Setting", "find_results", "printed", "recompute", "result"]

PAPERS = ("chakrabarti2022", "massny2025", "liu2016", "wang2016", "lange2024")
"""The keys of the papers, in the order of pages."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How results are recomputed: quickly or in full, on which data, with which seed.

    ``data`` is a folder laid out as the data sets are published (see docs, reproduction); without
    it, and where a file is missing in it, a synthetic stand-in is used and said to be one.
    """

    quick: bool = True
    data: Path | None = None
    seed: int = 1

    def file(self, *parts: str) -> Path | None:
        """Return a data file if it is there.

        >>> Setting().file("galton", "galton.csv") is None
        True
        """
        path = None if self.data is None else self.data.joinpath(*parts)
        return path if path is not None and path.is_file() else None


Compute = Callable[[Setting], Recomputed]


@dataclass(frozen=True, slots=True)
class Result:
    """One figure, table or theorem of a paper."""

    paper: str
    item: str
    title: str
    compute: Compute

    @property
    def id(self) -> str:
        """The name by which it is asked for, such as ``lange2024:fig15``."""
        return f"{self.paper}:{self.item}"

    def fingerprint(self, setting: Setting) -> str:
        """Return what a stored outcome depends on: the code of its paper, version and setting."""
        from undertow import __version__

        about = repr((self.id, __version__, setting, *_sources(self.paper)))
        return sha256(about.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Run:
    """A recomputed result and how long it took."""

    result: Result
    outcome: Recomputed
    seconds: float


_FOUND: dict[str, Result] = {}
_KINDS = (
    "fig", "tab", "thm", "lemma", "prop", "cor", "cond", "def", "eq", "alg", "ex", "sec", "fn",
    "data",
)  # fmt: skip


def result(paper: str, item: str, title: str) -> Callable[[Callable[[Setting], Parts]], Compute]:
    """Register a generator of the parts of a result: ``@result("wang2016", "fig2a", "...")``.

    The function is replaced by one that returns the outcome of its parts.
    """

    def register(parts: Callable[[Setting], Parts]) -> Compute:
        def compute(setting: Setting) -> Recomputed:
            return Recomputed.of(parts(setting))

        entry = Result(paper, item, title, compute)
        if paper not in PAPERS or entry.id in _FOUND:
            raise InvalidInput(f"{entry.id} is no new result of a known paper")
        _FOUND[entry.id] = entry
        return wraps(parts)(compute)

    return register


def _modules(paper: str) -> list[Traversable]:
    """Return the files with the code of a paper."""
    package = resources.files("undertow_papers").joinpath(paper)
    return [file for file in package.iterdir() if re.fullmatch(r"[a-z]\w*\.py", file.name)]


@cache
def _sources(paper: str) -> tuple[str, ...]:
    """Return all files of a paper: its code and its printed values."""
    values = resources.files("undertow_papers").joinpath("printed", f"{paper}.toml")
    files = sorted([*_modules(paper), values], key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


@cache
def _all() -> dict[str, Result]:
    for paper in PAPERS:
        for file in _modules(paper):
            import_module(f"undertow_papers.{paper}.{file.name.removesuffix('.py')}")
    listed = sorted(_FOUND.values(), key=lambda entry: (PAPERS.index(entry.paper), _place(entry)))
    return {entry.id: entry for entry in listed}


def _place(entry: Result) -> tuple[int, list[tuple[int, str]]]:
    """Return where a result stands among those of its paper: figures first, by number."""
    kind = re.match(r"[a-z]*", entry.item)
    word = kind.group() if kind else ""
    rank = _KINDS.index(word) if word in _KINDS else len(_KINDS)
    parts = re.findall(r"\d+|\D+", entry.item)
    return rank, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def find_results(wanted: Iterable[str] = ("all",)) -> list[Result]:
    """Return the results named: ``all``, a paper's key, or an id; refuse what there is not.

    >>> {found.paper for found in find_results(["wang2016"])}
    {'wang2016'}
    """
    known = _all()
    chosen: dict[str, Result] = {}
    for name in wanted:
        matches = [r for r in known.values() if name in ("all", r.paper, r.id)]
        if not matches:
            near = [id for id in known if id.startswith(name.split(":")[0] + ":")]
            shown = ", ".join(near[:40] or PAPERS)
            raise InvalidInput(f"there is no result {name!r}; known: {shown}")
        chosen |= {r.id: r for r in matches}
    return [r for r in known.values() if r.id in chosen]


def recompute(entry: Result, setting: Setting) -> Run:
    """Return the outcome of one result."""
    began = time.perf_counter()
    outcome = entry.compute(setting)
    return Run(entry, outcome, time.perf_counter() - began)


@cache
def printed(paper: str) -> dict[str, Any]:
    """Return the values of a paper as they are printed or were read off its figures.

    >>> isinstance(printed("wang2016"), dict)
    True
    """
    file = resources.files("undertow_papers").joinpath("printed", f"{paper}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))
