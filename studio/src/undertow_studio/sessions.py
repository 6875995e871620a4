"""Pieces of work: a model, a table, a question. Each is frozen, under a random name in the path.

A change makes a new piece of work and leaves the old one as it was: the back button finds the old
one, a reload the same one, and two tabs cannot overwrite one another's question.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from secrets import token_urlsafe
from typing import Any, Literal

from undertow.models.sets import AnyModel
from undertow.plan import Plan
from undertow_studio.questions import AskedQuestion
from undertow_studio.reading import PrivateTable, Reading

__all__ = ["Work", "Works"]

Origin = Literal["example", "drawn", "file", "plan", "ledger"]

_KEPT = 1000
"""Pieces of work that are kept; the ones not looked at for longest go first."""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work, as far as it has come.

    ``model`` is None where it is to be fitted to the table. ``model_name`` names the model in this
    run: whatever is computed under it is computed once. ``plan`` is one that was brought along.
    """

    id: str
    title: str
    origin: Origin
    source: PrivateTable | None = None
    reading: Reading | None = None
    model: AnyModel | None = None
    model_name: str = ""
    asked: AskedQuestion | None = None
    plan: "Plan[Any] | None" = None

    @property
    def simulated(self) -> bool:
        """Whether its records are simulated."""
        return self.source is not None and self.source.simulated


class Works:
    """The pieces of work of a studio, by name."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Work] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, title: str, origin: Origin, **parts: Any) -> Work:
        """Return a new piece of work with a model of its own."""
        return self._keep(Work(_name(), title, origin, model_name=_name(), **parts))

    def change(self, work: Work, **parts: Any) -> Work:
        """Return a new piece of work that differs from another in some parts."""
        if "model" in parts or "reading" in parts:
            parts = {"model_name": _name(), **parts}
        return self._keep(replace(work, id=_name(), **parts))

    def find(self, name: str) -> Work | None:
        """Return a piece of work, None where it is not held (any more)."""
        with self._lock:
            found = self._held.get(name)
            if found is not None:
                self._held.move_to_end(name)
            return found

    def _keep(self, work: Work) -> Work:
        with self._lock:
            self._held[work.id] = work
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        return work


def _name() -> str:
    return token_urlsafe(9)
