"""The least noise of any shape for a count: what it must keep, and its proof.

All pairs of laws that an adversary can tell apart are constraints of a linear program
(`noise_tables`); what it finds is rounded to multiples of 2^-128, and what is rounded is proved
(docs, theory: least noise of any shape).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from undertow.bounds.counts.laws import CountPairs, stack_pairs
from undertow.bounds.counts.tables import BLOCK, pair_sources, table_leakage, windows_of
from undertow.bounds.engine import assuming
from undertow.bounds.levels.sides import Ints
from undertow.bounds.protocol import Problem
from undertow.certificate import Leakage, worst
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import BITS, FINE, LONGEST, TabulatedNoise
from undertow.methods import METHODS
from undertow.models.sets import ModelSet
from undertow.numerics import Array
from undertow.planning.budget import aim
from undertow.planning.calibrate import solve
from undertow.planning.questions import CERTAIN, Question, Remembered, Solution, Solver, chains_of

__all__ = ["OPTIMAL", "optimal_effort"]


SPARE = 1e-3
"""Share by which the Laplace noise is wider that all mixtures lean on (upper side)."""

REACH = 16.0
"""Scales of that noise up to which a table goes at first: what is beyond has a mass of e^-16."""

TAILS, FARTHEST = 1e-5, 64.0
"""Share of the loss in the tails beyond which a longer table is tried, up to so many scales."""

CLOSE = 1e-6
"""Relative distance of the two ends at which the search stops."""

APART, LARGE = 1e-4, 10.0
"""Relative distance of the ends that is not called an optimum any more; above a limit of `LARGE`
probabilities may be too different in size for the solver."""

ROUNDS = 100
"""Most rounds of the search (cost); the best mixture is used then."""

MOST = 2e9
"""Most multiplications of one round: pairs x counts x answers, and those of the solver (cost)."""

PIVOTS = 20
"""Multiplications of the solver for each third power of the places of a table, as measured."""

TOLERANCES = (1e-10, 1e-8, 1e-7)
"""Tolerances of constraints, in the order in which they are tried; mixtures keep them all."""

_FEASIBLE = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")

SHRINK = 1e-3
"""By how much the unit of a variable falls at most from one round to the next."""

PATIENCE = 8
"""Repeated solutions of the program in better units, without a new constraint, at most."""

LEADERS = 512
"""Pairs that are looked at in every round, as long as one of them is violated."""

VIOLATED = 1e-8
"""Share of the way from Laplace noise that a violated constraint must cut off to join."""

Loss = Literal["absolute", "squared"]


@dataclass(frozen=True, slots=True)
class Table:
    """The law of a noise: ``law`` (places,) from ``first`` on, tails of ``ratio`` beyond.

    ``lower`` is the least expected loss that any noise with these tails can have, ``upper`` that of
    this one, both to nearest; ``tails`` is the share of the tails in it.
    """

    first: int
    law: Array
    ratio: float
    lower: float
    upper: float
    tails: float

    @property
    def closed(self) -> bool:
        """Whether the two ends meet, so that this may be called an optimum."""
        return self.upper <= self.lower * (1 + APART)

    def noise(self, question: Question) -> TabulatedNoise:
        """Return the noise with all probabilities rounded to multiples of 2^-128."""
        masses = [Fraction(float(part)) for part in self.law]
        for end in (0, -1):  # the tails as a whole
            masses[end] /= 1 - Fraction(self.ratio)
        total = sum(masses)
        weights = [max(1, round(mass / total * 2**BITS)) for mass in masses]
        weights[weights.index(max(weights))] += 2**BITS - sum(weights)
        return TabulatedNoise(question.query, self.first, tuple(weights), self.ratio)


@dataclass(frozen=True, slots=True)
class _Program:
    """The constraints of a limit on tables from -reach to reach with tails of a ratio.

    ``gaps`` (pairs, counts) is p - e^limit q: a law g keeps the limit if gaps * g <= 0 everywhere.
    """

    gaps: Array
    reach: int
    ratio: float

    @property
    def places(self) -> Ints:
        """The whole numbers of the table."""
        return np.arange(-self.reach, self.reach + 1)

    def widened(self, law: Array) -> Array:
        """Return a table with its tails, read at s - j: (counts, answers)."""
        counts = self.gaps.shape[1]
        far = self.ratio ** np.arange(1, counts)
        return windows_of(np.concatenate([law[0] * far[::-1], law, law[-1] * far]), counts)

    def excess(self, law: Array, among: "Ints | slice" = slice(None)) -> Array:
        """Return by how much a table exceeds the limit, (pairs, answers)."""
        return np.asarray(self.gaps[among] @ self.widened(law))

    @property
    def answers(self) -> int:
        """Number of answers that represent all: those of the table, moved by every count."""
        return int(2 * self.reach + self.gaps.shape[1])

    def needed(self, law: Array, start: Array, among: "Ints | slice") -> Array:
        """Return how much of Laplace noise a mixture needs to keep each limit, (pairs, answers).

        ``start`` is the table of that noise, which keeps all limits with room to spare.
        """
        over = np.maximum(self.excess(law, among), 0.0)
        return np.asarray(over / (over - self.excess(start, among)))

    def rows(self, pairs: Ints, answers: Ints) -> Array:
        """Return the constraints of some pairs at some answers, (constraints, places)."""
        counts = self.gaps.shape[1]
        # the answers begin at -reach; s - j lies in the table, or in a tail
        apart = (answers - self.reach)[:, None] - np.arange(counts)  # (constraints, counts)
        inside = np.clip(apart, -self.reach, self.reach)
        share = self.gaps[pairs] * self.ratio ** np.abs(apart - inside)
        rows = np.zeros((len(pairs), 2 * self.reach + 1))
        for count in range(counts):
            np.add.at(rows, (np.arange(len(pairs)), inside[:, count] + self.reach), share[:, count])
        return rows

    def masses(self) -> Array:
        """Return what each entry of the table adds to the whole: tails count as one."""
        masses = np.ones(2 * self.reach + 1)
        masses[[0, -1]] = 1 / (1 - self.ratio)
        return masses

    def costs(self, loss: Loss) -> Array:
        """Return what each entry of the table adds to the expected loss."""
        power, ratio, far = (1 if loss == "absolute" else 2), self.ratio, self.reach
        costs = np.abs(self.places).astype(np.float64) ** power
        first, second = ratio / (1 - ratio) ** 2, ratio * (1 + ratio) / (1 - ratio) ** 3
        tail = far / (1 - ratio) + first
        if loss == "squared":
            tail = far**2 / (1 - ratio) + 2 * far * first + second
        costs[[0, -1]] = tail
        return costs


def least_table(
    pairs: CountPairs, limit: float, *, symmetric: bool = False, loss: Loss = "absolute",
    most: float = MOST,
) -> Table:  # fmt: skip
    """Return the table with the least expected loss that keeps a limit for all pairs.

    A second's work for a chain of two states, growing with (pairs) x (counts) x (places).
    ``symmetric`` asks for the best symmetric one, ``most`` bounds the multiplications of a round:
    refused beyond. The table is made longer as long as its tails
    matter: their ratio is not chosen by the program.
    """
    table, reach = _least_table(pairs, limit, REACH, symmetric, loss, most), 2 * REACH
    while table.tails > TAILS and reach <= FARTHEST:
        try:
            longer = _least_table(pairs, limit, reach, symmetric, loss, most)
        except NotSupported:  # longer than what can be solved
            break
        if longer.upper > table.upper or not longer.closed:  # or than what can be solved closely
            break
        table, reach = longer, 2 * reach
    return table


def _least_table(
    pairs: CountPairs, limit: float, reach: float, symmetric: bool, loss: Loss, most: float
) -> Table:
    """Return the best table that goes up to ``reach`` scales of Laplace noise."""
    program, start = _program(pairs, limit, reach, most)
    masses, costs = program.masses(), program.costs(loss)
    share = np.diag(start)  # (places, variables): entries in units of those of Laplace noise
    if symmetric:
        fold = np.abs(program.places)
        share = np.zeros((len(start), program.reach + 1))
        share[np.arange(len(start)), fold] = start
    constraints = _Constraints(program, share)
    wide = program.widened(start)
    # the room that Laplace noise leaves, as a share of what it is measured by
    tight = _survey(program, lambda part: program.excess(start, part) / (pairs.others[part] @ wide))
    constraints.add(*_first(pairs, tight.where))
    few = tight.leaders()  # (some pairs,): those worth looking at in every round
    best, upper, lower, again = start, float(costs @ start), 0.0, 0
    for turn in range(ROUNDS):
        law = constraints.solve(costs, masses)
        law = law / (masses @ law)
        if turn < ROUNDS - 1:
            needed = program.needed(law, start, few)
            answers = np.flatnonzero(needed.max(axis=0) > VIOLATED)
            if constraints.add(few[needed.argmax(axis=0)[answers]], answers):
                continue
        # now all pairs: those that lead among them are looked at from here on
        survey = _survey(program, partial(program.needed, law, start))
        part = min(1.0, float(survey.best.max()) * (1 + VIOLATED) + VIOLATED)
        mixed, lower = (1 - part) * law + part * start, float(costs @ law)
        if costs @ mixed < upper:
            best, upper = mixed, float(costs @ mixed)
        answers = np.flatnonzero(survey.best > VIOLATED)
        again = 0 if constraints.add(survey.where[answers], answers) else again + 1
        if upper - lower <= CLOSE * lower or again > PATIENCE:
            break
        few = np.union1d(few, survey.leaders())
    tails = float((costs * best)[[0, -1]].sum()) / upper
    return Table(-program.reach, best, program.ratio, lower, upper, tails)


@dataclass(frozen=True, slots=True)
class _Survey:
    """The largest scores of all pairs: of each pair, and at each answer with the pair that has it.

    ``tops`` (pairs,), ``best`` and ``where`` (answers,).
    """

    tops: Array
    best: Array
    where: Ints

    def leaders(self) -> Ints:
        """Return the pairs that lead at some answer, and those that come closest anywhere."""
        most = min(LEADERS, len(self.tops))
        return np.union1d(np.argpartition(self.tops, len(self.tops) - most)[-most:], self.where)


def _survey(program: _Program, score: Callable[[slice], Array]) -> _Survey:
    """Return the largest scores (pairs, answers) of all pairs, some at a time (memory)."""
    tops, step = [], max(1, BLOCK // program.answers)
    best = np.full(program.answers, -np.inf)
    where = np.zeros(program.answers, dtype=np.int64)
    for start in range(0, len(program.gaps), step):
        scores = score(slice(start, start + step))
        tops.append(scores.max(axis=1))
        at = scores.argmax(axis=0)  # (answers,)
        value = np.take_along_axis(scores, at[None], axis=0)[0]
        where = np.where(value > best, start + at, where)
        best = np.maximum(best, value)
    return _Survey(np.concatenate(tops), best, where)


class _Constraints:
    """The constraints so far, in the variables of the linear program."""

    def __init__(self, program: _Program, share: Array) -> None:
        self.program, self.share = program, share
        self.known: set[tuple[int, int]] = set()
        self.rows = np.empty((0, share.shape[1]))
        self.unit = np.ones(share.shape[1])

    def add(self, pairs: Ints, answers: Ints) -> bool:
        """Add constraints, and return whether any is new."""
        new = [
            one
            for one in dict.fromkeys(zip(pairs.tolist(), answers.tolist(), strict=True))
            if one not in self.known
        ]
        if not new:
            return False
        self.known.update(new)
        rows = self.program.rows(*np.array(new).T) @ self.share
        self.rows = np.concatenate([self.rows, rows / np.abs(rows).max(axis=1, keepdims=True)])
        return True

    def solve(self, costs: Array, masses: Array) -> Array:
        """Return the law with the least cost that keeps the constraints so far.

        Variables are measured in units of their last values, which fall off faster than Laplace
        noise where limits are large: a solver's tolerances are about numbers near 1.
        """
        from scipy.optimize import linprog

        rows = self.rows * self.unit
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)
        cost, whole = (costs @ self.share) * self.unit, (masses @ self.share) * self.unit
        for close in TOLERANCES:
            option: Any = dict.fromkeys(_FEASIBLE, close)
            optimum = linprog(
                cost / cost.max(), A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=whole[None],
                b_eq=[1.0], bounds=(0, None), method="highs", options=option,
            )  # fmt: skip
            if optimum.x is not None:
                variables = np.maximum(optimum.x, 0.0) * self.unit  # (variables,)
                self.unit = np.maximum(variables, SHRINK * self.unit)
                return np.asarray(self.share @ variables)
        raise MethodRefused(
            "the linear program of the least noise could not be solved; use method='exact'"
        )


def _first(pairs: CountPairs, tight: Ints) -> tuple[Ints, Ints]:
    """Return the constraints to begin with: pairs and answers.

    For each answer the pair that Laplace noise leaves the least room (``tight``, (answers,)); and
    where records on both sides are known, so that counts are certain, one pair for each way in
    which they differ: these keep every probability above 0.
    """
    answers = np.arange(len(tight))
    certain = np.flatnonzero((pairs.laws.max(axis=1) == 1) & (pairs.others.max(axis=1) == 1))
    moves = pairs.laws[certain].argmax(axis=1) - pairs.others[certain].argmax(axis=1)
    places = certain[np.unique(moves, return_index=True)[1]]
    first = np.concatenate([tight, np.repeat(places, len(answers))])
    return first, np.concatenate([answers, np.tile(answers, len(places))])


def _program(pairs: CountPairs, limit: float, scales: float, most: float) -> tuple[_Program, Array]:
    """Return the constraints, and the table of Laplace noise that keeps them with room to spare."""
    rate = _laplace_rate(pairs, limit)
    spare = SPARE
    while spare < 1:
        wide = rate / (1 + spare)
        reach = math.ceil(scales / wide) + 8
        answers = 2 * reach + pairs.counts
        places = 2 * reach + 1
        if places > LONGEST or pairs.laws.size * answers + PIVOTS * places**3 > most:
            raise MethodRefused(
                f"a table of {places} probabilities for {len(pairs.laws)} pairs of laws is "
                "too large a linear program; use method='exact'"
            )
        ratio = round(math.exp(-wide) * 2**FINE) / 2**FINE
        margin = 4 * pairs.error(answers) + 1e-13
        factor = np.exp(limit - margin - pairs.slack)  # (pairs,)
        program = _Program(pairs.laws - factor[:, None] * pairs.others, reach, ratio)
        start = ratio ** np.abs(program.places)
        start = start / (program.masses() @ start)
        if _survey(program, partial(program.excess, start)).best.max() < 0:
            return program, start
        spare *= 4
    raise MethodRefused("no Laplace noise keeps this limit with room to spare; use method='exact'")


def _laplace_rate(pairs: CountPairs, limit: float) -> float:
    """Return the largest 1 / scale at which Laplace noise keeps a limit, to a tenth of `SPARE`."""
    if not len(pairs.laws) or np.array_equal(pairs.laws, pairs.others):
        raise NothingToProtect(CERTAIN)

    def loss(rate: float) -> float:
        law = np.exp(-rate * np.abs(np.arange(-pairs.counts - 1, pairs.counts + 2)))
        table = windows_of(law, pairs.counts)  # answers a step beyond all counts
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log((pairs.laws @ table) / (pairs.others @ table))
        return float((np.nan_to_num(ratio, nan=np.inf).max(axis=1) + pairs.slack).max())

    low, high, rate = 0.0, math.inf, limit / 3
    for _ in range(100):
        leak = loss(rate)
        low, high = (rate, high) if leak <= limit else (low, rate)
        if low and high <= low * (1 + SPARE / 10):
            return low
        if low > 100 * limit:
            raise NothingToProtect(CERTAIN)
        # the loss is nearly proportional to the rate; step aside to close the bracket
        aside = SPARE / 12 if leak <= limit else -SPARE / 20
        guess = rate * min(limit / max(leak, 1e-12), 8.0) * (1 + aside)
        inside = low < guess < high
        between = (low + high) / 2 if high < math.inf else 4 * rate
        rate = guess if inside and abs(guess / rate - 1) > SPARE / 40 else between
    raise MethodRefused(f"no Laplace noise keeps a limit of {limit:g} here")


CHARGED = 1e-4
"""Share of a limit that the longest sides may cost without a look at Laplace noise."""


def _pairs(question: Question) -> CountPairs:
    """Return the pairs of laws of all models that may be true, or refuse."""
    if not question.query.named:
        raise MethodRefused(
            f"'optimal' knows counts, not {type(question.query).__name__}; use method='exchange'"
        )
    if question.against == "informed":
        raise MethodRefused(
            "who knows all other records is kept out best by discrete Laplace noise [ghosh2009]; "
            "use method='exact'"
        )
    try:
        laws = [
            source.pairs
            for member in question.model.members()
            for source in pair_sources(question.query, member, question.against, question.limit)
        ]
    except NotSupported as reason:
        raise MethodRefused(str(reason)) from reason
    if not laws:
        raise NothingToProtect(CERTAIN)
    return stack_pairs(laws) if len(laws) > 1 else laws[0]


@Remembered
def solve_optimal(question: Question) -> Solution:
    """Return the least noise of any shape for a count, with its proof."""
    pairs = _pairs(question)
    limit = aim(question.limit)
    loss: Loss = "squared" if question.objective == "squared" else "absolute"
    for _ in range(4):
        table = least_table(pairs, limit, loss=loss, most=MOST * question.patience)
        if not table.closed:
            raise MethodRefused(
                "the search for the least noise did not come to its end, as it may where limits "
                f"are above {LARGE:g}; use method='exact'"
            )
        noise = table.noise(question)
        leak = prove_optimal(question, noise)
        if leak.proves(aim(question.limit)):
            break
        limit = limit - 2 * (leak.upper - aim(question.limit))  # rounding alone is in the way
    _check_better(question, pairs, noise)
    return Solution(noise, leak)


def _check_better(question: Question, pairs: CountPairs, noise: TabulatedNoise) -> None:
    """Refuse noise that errs more than the exact discrete Laplace noise.

    It may where long sides cost much, or are stood for by windows that no adversary sees.
    """
    if pairs.real.all() and pairs.slack.max() <= CHARGED * question.limit:
        return
    laplace = solve(METHODS["answer"]["exact"], question).mechanism
    if laplace.expected_error() < noise.expected_error():
        raise MethodRefused(
            "long sides cannot be told from windows that nobody sees, and noise that keeps the "
            "limit for these too errs more than Laplace noise; use method='exact'"
        )


@Remembered
def prove_optimal(question: Question, noise: TabulatedNoise) -> Leakage:
    """Return the exact leakage of noise from a table."""
    try:
        bounds = [
            assuming(
                table_leakage(noise, one, question.against, question.limit),
                Problem(noise, one, question.against),
            )
            for one in question.model.members()
        ]
    except NotSupported as reason:
        raise MethodRefused(str(reason)) from reason
    model = question.model
    return worst(bounds, model.note) if isinstance(model, ModelSet) else bounds[0]


def optimal_effort(question: Question) -> float:
    """Return the least effort that the program of the least noise takes on a chain.

    Every round multiplies the laws of all windows by the table of the noise: pairs x counts x
    answers, with no fewer windows than those of eight records a side, and a table of 16 scales.
    """
    if question.query.kind != "count" or question.against == "ignorant":
        return 0.0
    reach, most = 8, 0.0
    for chain in chains_of(question.model):
        if chain.length is not None:
            reach = min(reach, chain.length - 1)
        options = reach * (chain.size + 1) + 1
        counts = 2 * reach + 2
        answers = 32 / question.limit + counts
        most += options**2 * chain.size * (chain.size - 1) * counts * answers
    return most / 3000


OPTIMAL = Solver(solve_optimal, prove_optimal)
