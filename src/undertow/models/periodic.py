"""Chains that move differently by a public context: the hour of day, the weekday, day and night.

The context of a step is known to everybody and fixed beforehand; which matrix leads from a record
to the next follows from it. So the chain is one whose steps differ. Nothing is said, or guaranteed,
about what the context itself reveals.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from undertow.base_query import State
from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import parts
from undertow.models.checks import NAMES, untested
from undertow.models.described import fields, names, numbers, text
from undertow.models.markov import MarkovChain
from undertow.models.origins import fitted_origin
from undertow.models.records import UNSTATED, RecordDescription
from undertow.models.rows import check_prior, probability_rows, state_names, warn_fitted
from undertow.models.sequences import MISSING, encode
from undertow.models.stationary import one_closed_class, stationary_law
from undertow.numerics import Array, check_count, check_listed, freeze

__all__ = ["ContextChain", "FittedContexts", "by_context", "fit_by_context", "periodic"]

_MOST_STEPS = 10**6
"""Steps of one chain: each has a matrix in memory."""

_SHOWN = 4
"""Contexts that a sentence names."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextChain(MarkovChain):
    """A chain whose step from record t to the next has the matrix of the context of record t.

    ``matrices`` (contexts, k, k) belong to ``labels``; ``steps`` (n - 1,) says which of them leads
    from each record to the next; ``context`` is what the labels are: "hour of day". In every other
    respect a `MarkovChain` of n records with a matrix for each step. Made by
    `MarkovChain.periodic` and `MarkovChain.by_context`.

    >>> chain = MarkovChain.by_context({"day": [[.8, .2], [.4, .6]], "night": [[1, 0], [.5, .5]]},
    ...                                ["day", "night", "night"], start=[.5, .5])
    >>> chain.length, chain.transition[2].tolist()
    (4, [[1.0, 0.0], [0.5, 0.5]])
    """

    kind: ClassVar[str] = "context-chain"

    matrices: Array = field(repr=False)
    labels: tuple[Hashable, ...]
    steps: Any = field(repr=False)
    context: str

    def __init__(
        self,
        matrices: Mapping[Any, Any],
        steps: Sequence[int],
        states: Sequence[State] | None = None,
        start: Any = None,
        context: Any = "context",
        *,
        every: str | int | None = None,
    ) -> None:
        """Check the matrices one by one, and put those of the steps in a row."""
        matrices, states = _read(matrices, states)
        table, labels = _checked(matrices)
        order = np.array(steps, dtype=np.int64)
        order.setflags(write=False)
        if not isinstance(context, str) or not context.strip():
            raise InvalidModel("context must say in words what is public, such as 'hour of day'")
        law = stationary_law(table[order[0]]) if start is None else start
        MarkovChain.__init__(self, table[order], states, law)
        set_ = object.__setattr__
        set_(self, "matrices", table)
        set_(self, "labels", labels)
        set_(self, "steps", order)
        set_(self, "context", context)
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        return (*MarkovChain._key(self), self.labels, self.steps.tobytes(), self.context)

    def disclaimers(self) -> tuple[str, ...]:
        """Return what is not guaranteed: anything about the context, and series out of step."""
        first = self.labels[int(self.steps[0])]
        public = f"the context ({self.context}) is public"
        return (
            f"{public}: nothing is guaranteed about what the context itself reveals",
            f"every series begins at {self.context} {first!r}, in step with the model",
        )

    def describe(self) -> str:
        """Return the model in one sentence."""
        shown = ", ".join(map(str, self.labels[:_SHOWN]))
        more = f" and {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
        return (
            f"Markov chain on {self.size} states with a matrix for each {self.context} ({shown}"
            f"{more}), which is public, {self.length} records"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description: each matrix once."""
        return {
            "kind": self.kind,
            "context": self.context,
            "labels": list(self.labels),
            "matrices": self.matrices.tolist(),
            "steps": self.steps.tolist(),
            "states": list(self.states),
            "start": self.initial.tolist(),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "ContextChain":
        """Return the chain described by `law_dict`."""
        needed = ("context", "labels", "matrices", "steps", "start")
        read = fields(description, "a chain by context", needed, ("kind", "states"))
        labels = names(read["labels"], "labels") or []
        matrices, steps = read["matrices"], read["steps"]
        if not labels or not isinstance(matrices, list) or len(matrices) != len(labels):
            raise InvalidModel("a chain by context needs one matrix for each of its labels")
        if len(set(labels)) != len(labels):
            raise InvalidModel("two contexts bear the same label; labels must differ")
        if not isinstance(steps, list) or not 0 < len(steps) <= _MOST_STEPS:
            raise InvalidModel("steps must be a list of places of labels, at least one")
        for step in steps:
            if type(step) is not int or not 0 <= step < len(labels):
                raise InvalidModel(f"steps must be places of labels, 0 to {len(labels) - 1}")
        table = dict(zip(labels, map(numbers, matrices), strict=True))
        said = text(read["context"], "the context")
        return cls(table, steps, names(read.get("states"), "states"), numbers(read["start"]), said)


def by_context(
    matrices: Mapping[Any, Any],
    context: Iterable[Any],
    states: Sequence[State] | None = None,
    start: Any = None,
    name: str = "context",
    every: str | int | None = None,
) -> ContextChain:
    """Return the chain whose steps have these contexts; see `MarkovChain.by_context`.

    >>> by_context({"a": [[.5, .5], [.5, .5]]}, "aaa").length
    4
    """
    matrices, states = _read(matrices, states)
    _, labels = _checked(matrices)
    place = {label: number for number, label in enumerate(labels)}
    steps: list[int] = []
    listed = list(context) if isinstance(context, str) else check_listed(context, "context")
    for step, label in enumerate(listed):
        try:
            steps.append(place[label])
        except (KeyError, TypeError):
            raise InvalidModel(
                f"step {step} has the context {label!r}, which has no matrix; those with one are "
                f"{', '.join(map(repr, labels[:12]))}"
            ) from None
        if len(steps) > _MOST_STEPS:
            raise InvalidModel(f"a chain by context has at most {_MOST_STEPS} steps")
    if not steps:
        raise InvalidModel("context must name the context of each step: one fewer than records")
    return ContextChain(matrices, steps, states, start, name, every=every)


def periodic(
    matrices: Any,
    states: Sequence[State] | None = None,
    *,
    length: int | None = None,
    phase: int = 0,
    steps_per: int = 1,
    start: Any = None,
    context: str = "time of the cycle",
    every: str | int | None = None,
) -> ContextChain:
    """Return the chain that goes through its matrices in a cycle; see `MarkovChain.periodic`.

    >>> chain = periodic([[[.9, .1], [.3, .7]], [[.6, .4], [.4, .6]]], length=5, phase=1)
    >>> chain.steps.tolist()
    [1, 0, 1, 0]
    """
    if not isinstance(matrices, Mapping):
        listed = matrices if isinstance(matrices, Sequence | np.ndarray) else ()
        matrices = dict(enumerate(listed))
    matrices, states = _read(matrices, states)
    table, _ = _checked(matrices)
    if length is None:
        raise InvalidModel(
            "a periodic chain needs length=..., the number of records: a week of five-minute "
            "records has 2016"
        )
    records = check_count(length, "length (records in a series)", 2)
    if records > _MOST_STEPS:
        raise InvalidModel(f"a periodic chain has at most {_MOST_STEPS} records, found {records}")
    each = check_count(steps_per, "steps_per (steps with each matrix)", 1, _MOST_STEPS)
    cycle = len(table) * each
    first = check_count(phase, "phase", 0)
    if first >= cycle:
        raise InvalidModel(
            f"phase counts steps into the cycle of {cycle}, 0 to {cycle - 1}; found {first}"
        )
    steps = (first + np.arange(records - 1)) % cycle // each
    if start is None:
        whole = (first + np.arange(cycle)) % cycle // each  # the cycle from the first record on
        start = _cyclic_law(table, whole)
    return ContextChain(matrices, steps.tolist(), states, start, context, every=every)


def _cyclic_law(table: Array, order: Any) -> Array:
    """Return the law of a record that is the same one cycle later: pi = pi P_1 P_2 ... P_c."""
    product, support = np.eye(table.shape[1]), np.eye(table.shape[1], dtype=bool)
    for step in order:
        product, support = product @ table[step], support @ (table[step] > 0)
    if not one_closed_class(support):
        raise InvalidModel(
            "no single law of the first record repeats itself after a cycle; pass start=[...]"
        )
    return stationary_law(product / product.sum(axis=1, keepdims=True), support)


@dataclass(frozen=True, slots=True)
class FittedContexts:
    """Chains fitted by context: ``matrices`` and ``counts``, each (k, k), by label.

    `over` and `periodic` make the chain of a series.

    >>> found = fit_by_context([list("aabab")], [list("ddnnn")], prior=1, public=True)
    >>> found.counts["n"].tolist()
    [[0, 1], [1, 0]]
    """

    matrices: Mapping[Any, Array]
    counts: Mapping[Any, Any]
    states: tuple[State, ...]
    context: str
    public: bool = False
    records: RecordDescription = UNSTATED

    def over(self, context: Iterable[Any], start: Any = None) -> ContextChain:
        """Return the chain whose steps have these contexts."""
        return self._marked(by_context(self.matrices, context, self.states, start, self.context))

    def periodic(
        self,
        length: int | None = None,
        *,
        cycle: Iterable[Any] | None = None,
        phase: int = 0,
        steps_per: int = 1,
    ) -> ContextChain:
        """Return the chain that goes through the contexts, by default all of them in order."""
        labels = sorted(self.matrices, key=_order) if cycle is None else list(cycle)
        for label in labels:
            if label not in self.matrices:
                raise InvalidModel(f"no records were seen at {self.context} {label!r}")
        table = {label: self.matrices[label] for label in labels}
        made = periodic(
            table, self.states, length=length, phase=phase, steps_per=steps_per,
            context=self.context,
        )  # fmt: skip
        return self._marked(made)

    def _marked(self, chain: ContextChain) -> ContextChain:
        """Return the chain that says it was fitted, and to what kind of records."""
        marked = chain.with_checks(untested(self.public, *NAMES))
        marked = marked.with_origin(fitted_origin(self.public))
        return marked.with_records(replace(self.records, context=self.context))


def fit_by_context(
    sequences: Any,
    context: Any,
    states: Sequence[State] | None = None,
    *,
    prior: float = 0.0,
    name: str = "context",
    public: bool = False,
) -> FittedContexts:
    """Return a transition matrix for each context; see `MarkovChain.fit_by_context`.

    Cost O(n + c k^2) for c contexts.

    >>> fit_by_context(list("aabab"), list("ddddd"), public=True).matrices["d"].round(2).tolist()
    [[0.33, 0.67], [1.0, 0.0]]
    """
    read, about = encode(sequences, states), encode(context)
    codes, known, places, labels = read.codes, read.states, about.codes, about.states
    if not np.array_equal(read.series, about.series):
        raise InvalidInput(
            "records and contexts must be of the same lengths, sequence by sequence; found "
            f"{len(codes)} and {len(places)} entries, or sequences that end elsewhere"
        )
    if len(known) < 2:
        raise InvalidModel(f"a chain needs records of at least two states, found {len(known)}")
    weight, size = check_prior(prior), len(known)
    # a step belongs to the context of the record that it leaves
    there = (codes[:-1] != MISSING) & (codes[1:] != MISSING) & (places[:-1] != MISSING)
    there &= read.series[:-1] == read.series[1:]  # no step leads from one series to the next
    flat = (places[:-1] * size + codes[:-1]) * size + codes[1:]
    table = np.bincount(flat[there], minlength=len(labels) * size**2)
    table = table.reshape(len(labels), size, size)  # (contexts, from, to)
    matrices, counts = {}, {}
    for label, count in zip(labels, table, strict=True):
        totals = (count + weight).sum(axis=1, keepdims=True)
        if not (totals > 0).all():
            state = known[int(np.flatnonzero(totals[:, 0] <= 0)[0])]
            raise InvalidModel(
                f"no step leaves state {state!r} at {name} {label!r}: the context has no row for "
                "it; pass a prior (pseudo-counts, such as prior=0.5), or join contexts"
            )
        count.setflags(write=False)
        matrices[label], counts[label] = freeze((count + weight) / totals), count
    warn_fitted(public, stacklevel=3)
    named = state_names(known, size)
    return FittedContexts(matrices, counts, named, name, public, read.described)


def _read(matrices: Any, states: Sequence[State] | None) -> tuple[Any, Sequence[State] | None]:
    """Return the matrices with their labels read, and the states."""
    if not isinstance(matrices, Mapping):
        return matrices, states
    return parts(matrices, states, "the matrix of")


def _checked(matrices: Any) -> tuple[Array, tuple[Any, ...]]:
    """Return all matrices in one table, and their labels; each is checked by its own name."""
    if not isinstance(matrices, Mapping) or not matrices:
        raise InvalidModel(
            "matrices must be a transition matrix for each context: {'day': P, 'night': Q}, or a "
            "list of them where they follow each other"
        )
    found: list[Array] = []
    for label, matrix in matrices.items():
        table = freeze(matrix)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise InvalidModel(
                f"the matrix of {label!r} must be square, of at least two states; found shape "
                f"{table.shape}"
            )
        if found and table.shape != found[0].shape:
            raise InvalidModel(
                f"the matrix of {label!r} has {len(table)} states, that of "
                f"{next(iter(matrices))!r} has {len(found[0])}; all contexts have the same states"
            )
        found.append(probability_rows(table, f"the matrix of {label!r}"))
    return freeze(np.stack(found)), tuple(matrices)


def _order(label: Any) -> tuple[bool, Any]:
    """Return the key of a label in order: numbers, then texts."""
    return (isinstance(label, str), label)
