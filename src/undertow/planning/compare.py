"""All methods side by side: what each costs, whom it protects, and what it leaks in truth."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from undertow import progress
from undertow.accuracy import errors as expected
from undertow.adversaries import Against, words
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.frames import ResultTable
from undertow.methods import METHODS, Method, find_method
from undertow.models.fitting.checks import Check, accepted
from undertow.models.sets import AnyModel
from undertow.numerics import Array, check_epsilon, check_listed, freeze
from undertow.plan import Plan, Suggested, checked, doubts
from undertow.planning.acceptance import priced
from undertow.planning.budget import Search
from undertow.planning.calibrate import effort_of, least_error, plan_by, solve
from undertow.planning.coverage import covers_records
from undertow.planning.questions import Question, Shape, check_question
from undertow.queries import AnyQuery, LocalQuery, State
from undertow.rounding import above, columns, stated
from undertow.secrets import ONE_RECORD, Secret, Window

__all__ = ["Comparison", "ErrorCurves", "Row", "compare", "error_curves"]


EFFORT = 1e5
"""Effort that a row may take, in units of some 30 microseconds: about three seconds."""

PATIENCE = 0.25
"""Share of its own counted effort that a method may spend on a row: it is known too late to refuse
beforehand."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method's answer: a plan, or the reason why there is none.

    ``protects`` is the adversary that the plan was made for. A method that knows only the
    ignorant attacker is shown for that one; ``meets`` says whether the plan keeps the guarantee
    that was asked for, which a published one must be found to do. ``leakage`` is what the plan
    leaks in truth against the adversary asked about, by the sharpest certified bound, and None
    where none is known; of Gaussian noise, and of several releases, it is what the method proves.
    ``noise`` is the kind of noise, None for a series. ``failure`` is what was raised where that is
    no refusal: the memory did not suffice, a number left its range, or there is a defect. If the
    plan stands, its sharper leakage failed. ``complete`` says that the plan assumes that no value
    is missing, which was not asked for.
    """

    method: str
    certified: bool
    protects: Against
    meets: bool
    plan: Plan[Any] | None
    reason: str | None
    leakage: Leakage | None
    seconds: float
    noise: Shape | None = None
    failure: Exception | None = None
    complete: bool = False

    @property
    def scale(self) -> float | None:
        """The scale of Laplace noise on a curator's answer."""
        plan = self._noisy
        return plan.noise.amount if plan and plan.noise.measure == "scale" else None

    @property
    def sigma(self) -> float | None:
        """The standard deviation of Gaussian noise on a curator's answer."""
        plan = self._noisy
        return plan.noise.amount if plan and plan.noise.measure == "sigma" else None

    @property
    def expected_error(self) -> float | None:
        """The expected absolute error of one released number."""
        return None if self._noisy is None else self._noisy.expected_error

    @property
    def measures(self) -> dict[str, float]:
        """Utility measures of a local plan, by name."""
        return {} if self.plan is None else dict(self.plan.measures)

    @property
    def error_bar(self) -> float | None:
        """The distance within which all released numbers lie with probability 95%."""
        return None if self._noisy is None else self._noisy.accuracy(0.05)

    @property
    def _noisy(self) -> Plan[Any] | None:
        """The plan, where it adds noise to an answer."""
        return self.plan if self.plan is not None and self.plan.task == "answer" else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        leak = self.leakage
        return {
            "method": self.method,
            "basis": "certified" if self.certified else "published",
            "protects": self.protects if isinstance(self.protects, str) else words(self.protects),
            "meets": self.meets,
            "noise": self.noise,
            "scale": self.scale,
            "sigma": self.sigma,
            "expected_error": self.expected_error,
            "error_bar": self.error_bar,
            "measures": self.measures,
            "leakage": None if leak is None else [leak.lower, leak.upper],
            "assumptions": [] if self.plan is None else list(self.plan.leakage.assumptions),
            "reason": self.reason,
            **({"complete": True} if self.complete else {}),
            "seconds": self.seconds,
            **({} if self.failure is None else {"failure": type(self.failure).__name__}),
        }


def row_of(
    method: Method, question: Question[Any], allowed: float, accepted: tuple[str, ...] = ()
) -> Row:
    """Return one method's row; one for the ignorant attacker only is shown for that one.

    ``allowed`` is the effort that it may take, as a multiple of `EFFORT`; ``accepted`` are the
    failed checks that its plan accepts. Whatever goes wrong ends
    in this row, and takes no other with it; but a question that makes no sense is refused.
    """
    guards, against = method.guards(question.against), question.against
    shape = question.shape if question.query.task == "answer" else None
    whom: Against = against if guards else "ignorant"
    began = time.perf_counter()
    own = replace(question, against=whom)
    plan, reason, failure = _attempt(
        lambda: replace(_plan(method, own, allowed), accepted=accepted)
    )
    seconds = time.perf_counter() - began
    leak, flaw = None, None
    if plan is not None:
        leak, _, flaw = _attempt(lambda: _truth(plan, against))
    complete = question.missing is None and plan is not None and plan.missing == "none"
    complete = complete and question.query.task == "answer"
    kept = method.certified or (leak is not None and leak.proves(question.limit))
    return Row(
        method.name, method.certified, whom, guards and plan is not None and kept, plan,
        reason, leak, seconds, shape, failure or flaw, complete,
    )  # fmt: skip


T = TypeVar("T")


def _attempt(work: Callable[[], T]) -> tuple[T | None, str | None, Exception | None]:
    """Return what some work returns, or the reason why it does not, with a failure's exception."""
    try:
        return work(), None, None
    except NotSupported as refusal:
        return None, str(refusal), None
    except InvalidInput:  # the question is wrong, not the method
        raise
    except MemoryError as error:
        return None, "failed: it needs more memory than there is", error
    except Exception as error:  # noqa: BLE001  (a defect in one method hides no other)
        text = " ".join(str(error).split())
        return None, f"failed: {type(error).__name__}: {text}", error


def _plan(method: Method, question: Question[Any], allowed: float) -> Plan[Any]:
    """Return the plan of a method, or refuse; also where it takes more effort than a row may."""
    method.check(question)
    times = effort_of(method, question) / (EFFORT * allowed)
    if times > 1:
        raise MethodRefused(
            f"'{method.name}' needs about {times:.2g} times the effort allowed for a row; ask for "
            f"it by name, method='{method.name}', or allow more, effort={2 * times * allowed:.1g}"
        )
    # a small effort refuses by the estimate above, and does not cut short what it lets in
    effort = max(1.0, allowed)
    patience = min(1.0, PATIENCE * effort)
    return plan_by(method, replace(question, patience=patience, effort=effort))


def _truth(plan: Plan[Any], against: Against) -> Leakage | None:
    """Return the sharpest certified leakage of a plan's noise, where one is known."""
    method = METHODS[plan.task][plan.method]
    # a published method's plan carries the leakage that is certified for its noise
    if plan.against == against and (method.tight or not method.certified):
        return plan.leakage
    if plan.delta or plan.releases > 1:  # anything sharper takes long, or is about one answer
        return plan.leakage if plan.against == against else None
    secret = plan.leakage.secret
    hidden = secret if secret.person else Window(secret.window)
    sharpest = leakage(plan.mechanism, plan.model, against, hidden)
    if plan.task == "answer" and not covers_records(plan, sharpest):  # of any pattern of records
        sharpest = leakage(plan.mechanism, plan.model, against, hidden, valid_for="any")
    if plan.against != against or secret.value_pairs is not None or secret.targets is not None:
        return sharpest
    return replace(sharpest, upper=min(sharpest.upper, plan.leakage.upper))


_DRAWN = 1e-3
"""Relative precision of the levels behind a curve: finer than a line is wide."""


@dataclass(frozen=True, slots=True)
class Comparison(ResultTable):
    """One row per method and kind of noise, for one question.

    With a ``delta`` the limit is one at that delta; with several ``releases`` it is kept by all of
    them together. ``checks`` are what was tested of a fitted model, and what a failure costs the
    best plan. ``missing`` names the methods that were not asked, because the work was interrupted.
    ``order_one`` is the best plan for the chain of order one with the same pairs of neighbours,
    where the model is of order two.

    >>> from undertow import Count, MarkovChain, compare
    >>> table = compare(Count(1), MarkovChain([[.9, .1], [.3, .7]], length=12), limit=2.0)
    >>> [row.method for row in table if row.plan is None]
    ['lange', 'zhao']
    """

    rows: tuple[Row, ...]
    query: AnyQuery | LocalQuery
    model: AnyModel
    limit: float
    against: Against
    delta: float = 0.0
    releases: int = 1
    secret: Secret = ONE_RECORD
    checks: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()
    order_one: Plan[Any] | None = None
    accepted: tuple[str, ...] = ()

    def conditions(self) -> tuple[str, ...]:
        """Return the conditions of every row, as clauses: failed checks, and those not tested.

        The cost of a failed check is that of the best plan.
        """
        if self.best is not None:
            best = replace(self.best, checks=self.checks, accepted=self.accepted)
            beyond = Suggested.of(best).beyond(best.leakage.upper)
            return (*beyond, *checked(self.checks, self.accepted))
        return doubts(self.checks)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __getitem__(self, method: str | tuple[str, str]) -> Row:
        """Return the row of a method, or of a method and a kind of noise; the first there is."""
        name, shape = (method, None) if isinstance(method, str) else method
        for row in self.rows:
            if row.method == name and shape in (None, row.noise):
                return row
        raise InvalidInput(
            f"no row for {method!r}; the rows are {', '.join(row.method for row in self.rows)}"
        )

    @property
    def best(self) -> Plan[Any] | None:
        """The certified plan that keeps the guarantee with the least error, or the most shown.

        As in `calibrate`, a method that must be asked for by name is left out.
        """
        methods = METHODS[self.query.task]
        plans = [
            row.plan
            for row in self.rows
            if row.certified and row.meets and row.plan and not row.complete
            if methods[row.method].best == "always"
        ]
        return least_error(plans) if plans else None

    @property
    def optimum(self) -> float | None:
        """The least expected error of any noise that keeps the limit, where it is in the table."""
        for row in self.rows:
            if row.meets and row.plan is not None and METHODS[row.plan.task][row.method].tabulated:
                return row.expected_error
        return None

    def times_optimum(self, row: Row) -> float | None:
        """Return the error of a row as a multiple of the optimum.

        None where no optimum is known, or the row does not keep the same guarantee: it protects
        against less, or needs a delta.
        """
        if self.optimum is None or row.expected_error is None or not row.meets:
            return None
        return row.expected_error / self.optimum if row.noise == "laplace" else None

    @property
    def memory_price(self) -> float | None:
        """How many times as large the error is as where one record back were all that mattered.

        None where the model is not of order two or hidden, or either has no plan.
        """
        best, before = self.best, self.order_one
        if best is None or before is None:
            return None
        costs = [
            plan.expected_error if plan.task == "answer" else plan.expected_flips
            for plan in (best, before)
        ]
        return costs[0] / costs[1] if costs[1] > 0 else None

    def _memory(self) -> list[str]:
        """Return the price of the longer memory in words."""
        if self.memory_price is None or self.order_one is None:
            return []
        one = self.order_one
        if one.task == "answer":
            cost = f"{one.noise.measure} {one.noise.amount:.5g}"
        else:
            cost = f"{one.expected_flips:.5g} of the records flipped"
        times = f"{self.memory_price:.3g}"
        what = "the second record back costs"
        if self.model.kind == "hidden-chain":
            what = "hidden states cost"
        return [f"memory: order one would need {cost}; {what} a factor {times}"]

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each row."""
        return [{**row.to_dict(), "times_optimum": self.times_optimum(row)} for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        best = self.best
        return {
            "limit": self.limit,
            **({"delta": self.delta} if self.delta else {}),
            **({"releases": self.releases} if self.releases > 1 else {}),
            **({} if self.secret == ONE_RECORD else {"secret": self.secret.to_dict()}),
            "against": self.against if isinstance(self.against, str) else words(self.against),
            "model": self.model.describe(),
            "best": None if best is None else best.method,
            "best_noise": None if best is None or best.task != "answer" else best.noise.shape,
            "rows": self.descriptions(),
            "conditions": list(self.conditions()),
            **({"checks": [check.to_dict() for check in self.checks]} if self.checks else {}),
            **({"missing": list(self.missing)} if self.missing else {}),
            **({} if self.memory_price is None else {"memory_price": self.memory_price}),
        }

    def __str__(self) -> str:
        """Return the table as plain text."""
        local = self.query.task != "answer"
        whole = [row.method for row in self.rows if row.complete]
        measured: tuple[str, ...] = ("noise", "amount", "error", "95% within")
        if not self.delta:
            measured = ("scale", "error", "95% within")
        if self.optimum is not None:
            measured = (*measured, "x optimum")
        if local:
            measured = tuple(dict.fromkeys(name for row in self.rows for name in row.measures))
        lines: list[tuple[str, ...]] = [("method", *measured, "leaks", "protects", "basis")]
        notes = []
        for row in self.rows:
            basis = "certified" if row.certified else "published"
            if row.plan is None:
                blank = ["-" for _ in measured]
                if self.delta:
                    blank[0] = str(row.noise)
                lines.append((row.method, *blank, "-", "-", basis))
                notes.append(f"{row.method}: {row.reason}")
                continue
            leaks = "?" if row.leakage is None else above(row.leakage.upper, 4)
            whom = row.protects if isinstance(row.protects, str) else "this attacker"
            amount = row.sigma if row.scale is None else row.scale
            cells = [amount, row.expected_error, row.error_bar]
            if self.optimum is not None:
                cells.append(self.times_optimum(row))
            if local:
                cells = [row.measures.get(name) for name in measured]
            numbers = ["-" if number is None else f"{number:.5g}" for number in cells]
            if self.delta:
                numbers = [str(row.noise), *numbers]
            mark = "" if row.meets else " only"
            lines.append((row.method, *numbers, leaks, whom + mark, basis))
        if whole:
            named = ", ".join(dict.fromkeys(whole))
            notes.append(f"{named}: on the assumption that no value is missing")
        tested = [f"checked: {check.summary()}" for check in self.checks]
        missing = [f"interrupted, missing: {', '.join(self.missing)}"] if self.missing else []
        at = f" at delta {stated(self.delta)}" if self.delta else ""
        promise = f"a leakage of at most {self.limit:g}{at}"
        first = f"{promise}; {'; '.join(self.conditions())}"
        remarks = [*notes, *self._memory(), *tested, *missing]
        return "\n".join([first, *columns(lines), *remarks])


def compare(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    limit: float = 1.0,
    against: Against = "any",
    secret: Secret | None = None,
    delta: float = 0.0,
    releases: int = 1,
    *,
    methods: Sequence[str] | None = None,
    noise: Shape | None = None,
    missing: State | None = None,
    each: Callable[[Row], object] | None = None,
    effort: float = 1.0,
    partial: bool = False,
    accept: Sequence[str] = (),
) -> Comparison:
    """Return one plan, or the reason why not, for each method.

    `Series` and `Redacted` have methods of their own, and so have the kinds of models: by default
    those that have something to say about this one. With a ``delta`` there are rows for Laplace
    noise and for Gaussian noise, or for one kind of ``noise``; their errors can be compared, a
    scale and a sigma cannot. ``releases`` of the noise keep the limit together.
    ``secret=Window(12)`` asks what the history of so many records in a row costs; methods for one
    record say so. For a count the method ``optimal`` finds the least error that any noise can
    have; where it does, `Comparison.times_optimum` says how far each row is above it.

    ``missing`` is that of `calibrate`: by default each row covers any pattern of missing records,
    or says that it assumes that none is; such rows are not the best.

    Each row is given to ``each`` as soon as it is found, in the order of the table. A method that
    would take more than the ``effort`` of a row (a multiple of a few seconds; it is counted, and so
    the same on every machine) says so in its row, unless ``methods`` asks for it by name, or ends
    with more noise than need be and says that; with effort=math.inf nothing is left out. A method
    that fails leaves the others as they are: its row has the reason, and the exception in
    `Row.failure`. An interrupt (Ctrl-C) ends the whole, or with ``partial`` returns the rows found
    so far, and names the others in `Comparison.missing`.

    A model whose checks failed is compared and not refused: the table begins with what failed. Its
    plans release nothing unless ``accept`` names each failed check, as in `calibrate`.

    >>> from undertow import Count, MarkovChain, compare
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> table = compare(Count(1), chain, 1.0, methods=["exchange", "quilt", "wasserstein"])
    >>> table.best.method, round(table["quilt"].scale, 3), table["wasserstein"].protects
    ('exchange', 15.939, 'ignorant')
    """
    question = check_question(
        query, model, limit, against, secret, delta=delta, noise=noise, releases=releases,
        missing=missing,
    )  # fmt: skip
    questions = [
        (method, question.shaped(shape))
        for shape in question.shapes(noise)
        for method in _methods(question, methods, shape)
    ]
    effort = progress.check_effort(effort)
    taken = accepted(question.model.checks, accept, all_of=False)
    rows: list[Row] = []
    stopped = False
    try:
        for method, part in questions:
            with progress.inside(f"asking {method.name}", len(rows) + 1, len(questions)):
                named = methods is not None and not method.anytime
                rows.append(row_of(method, part, math.inf if named else effort, taken))
            if each is not None:
                each(rows[-1])
    except KeyboardInterrupt:
        if not partial:
            raise
        stopped = True
    table = Comparison(
        tuple(rows), query, question.model, question.limit, question.against, question.delta,
        question.releases, question.secret, question.model.checks,
        missing=tuple(method.name for method, _ in questions[len(rows) :]), accepted=taken,
    )  # fmt: skip
    best = table.best
    if best is None or stopped:  # to price a failed check takes as long as another plan
        return table
    return replace(table, checks=priced(best).checks, order_one=_order_one(question, best))


def _order_one(question: Question[Any], best: Plan[Any]) -> Plan[Any] | None:
    """Return the same method's plan for order one, where the model is of order two."""
    first = question.model.first_order()
    if first is None or question.query.task == "redact":
        return None
    shape: Shape = "laplace" if question.query.task != "answer" else best.noise.shape
    before = replace(question.shaped(shape), model=first)
    try:
        return plan_by(METHODS[question.query.task][best.method], before)
    except NotSupported:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ErrorCurves:
    """Expected error against limit for each method, nan where it has no answer."""

    limits: Array
    errors: dict[str, Array]
    protects: dict[str, str]
    certified: dict[str, bool]


def error_curves(
    query: AnyQuery,
    model: AnyModel,
    limits: Iterable[float],
    against: Against = "any",
    methods: Sequence[str] | None = None,
    tick: Callable[[], object] | None = None,
    *,
    delta: float = 0.0,
    releases: int = 1,
    secret: Secret | None = None,
) -> ErrorCurves:
    """Return the expected error of each method at each limit, for a figure.

    Good to a thousandth; the noise is a proved one, but no leakage is computed for it.
    ``tick`` is called after each limit. With a ``delta``, methods for Gaussian noise alone are
    there too: by default the quick ones.

    >>> from undertow import Count, MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> curves = error_curves(Count(1), chain, [1.0, 20.0], methods=["group", "lange"])
    >>> {name: values.round(4).tolist() for name, values in curves.errors.items()}
    {'group': [15264.0, 763.1998], 'lange': [nan, 0.0]}
    """
    levels = freeze(list(limits))
    if levels.ndim != 1 or not levels.size or (np.diff(levels) <= 0).any():
        raise InvalidInput("curves need limits in increasing order")
    if query.task != "answer":
        raise InvalidInput("curves are of the noise on an answer, such as that to Count('active')")
    question = check_question(
        query, model, float(levels[0]), against, secret, delta=delta, releases=releases
    )
    chosen = _methods(question, methods)
    if question.delta:
        normal = _methods(question, methods, "gaussian")
        chosen += [m for m in normal if not m.pure and (methods is not None or m.quick)]
    chosen = [method for method in chosen if releases == 1 or method.scope.releases]
    if methods is None:
        chosen = [method for method in chosen if method.best != "alone"]
    chosen = [method for method in chosen if question.secret.window == 1 or method.scope.windows]
    chosen = [method for method in chosen if not question.secret.person or method.scope.persons]
    protected = {
        method.name: against if method.guards(against) else "ignorant" for method in chosen
    }
    errors: dict[str, list[float]] = {method.name: [] for method in chosen}
    ratios: dict[str, float] = {}  # DP level per unit of limit, where the last search ended
    for level in levels:
        for method in chosen:
            name = method.name
            guess = level * ratios[name] if name in ratios else None
            rough = replace(
                question.shaped("laplace" if method.pure else "gaussian"),
                limit=check_epsilon(float(level), "limit"), against=protected[name],
                search=Search(_DRAWN, guess),
            )  # fmt: skip
            try:
                together = solve(method, rough).mechanism
            except NotSupported:
                errors[name].append(math.nan)
                continue
            noise = rough.each(together)
            errors[name].append(expected(noise, len(rough.model.states))[0])
            if method.pure:
                ratios[name] = together.dp_epsilon(rough.length) / level
        if tick is not None:
            tick()
    return ErrorCurves(
        levels,
        {name: freeze(values) for name, values in errors.items()},
        {name: who if isinstance(who, str) else words(who) for name, who in protected.items()},
        {method.name: method.certified for method in chosen},
    )


def _methods(
    question: Question[Any], names: Sequence[str] | None, shape: Shape = "laplace"
) -> list[Method]:
    """Return the methods of some names that calibrate a kind of noise; by default, of the model."""
    task = question.query.task
    if names is not None:
        methods = [find_method(task, name) for name in check_listed(names, "methods")]
    else:
        methods = [method for method in METHODS[task].values() if method.suits(question.model)]
    alone = names is not None and not question.delta  # then a refusal says why
    return [method for method in methods if alone or method.solver(shape) is not None]
