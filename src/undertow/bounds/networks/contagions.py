"""Leakage of a family of networks with one parameter in an interval, at its worst value.

Bounds around midpoints hold on whole pieces; the piece with the largest bound is halved until the
bound meets what is attained. For contagions the logarithms of joint probabilities are bounded, for
pedigrees slope and curvature in the log-odds of a frequency (docs, theory: networks, pedigrees).
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.metric import refused
from undertow.bounds.networks.counts import (
    ORDINARY,
    AnswerLattice,
    CaseLoss,
    CaseTable,
    JointLaws,
    check_effort,
    loss_at,
    rounding,
    spread,
)
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.levels import dependent_records
from undertow.bounds.protocol import AnswerProver, Prover
from undertow.certificate import Leakage
from undertow.errors import NotSupported
from undertow.mechanisms import Levelled, MetricDP
from undertow.models.networks import BayesianNetwork, Contagion
from undertow.models.pedigrees import Family
from undertow.numerics import ROUNDOFF, Array, up

__all__ = [
    "FREQUENCY_WIDTH",
    "PROVERS",
    "FrequencyBracket",
    "frequency_bracket",
    "leakage",
]


CONTAGION_WIDTH = 1e-4
"""Relative width at which the worst parameter counts as found (upper side)."""

NARROW = 1e-9
"""Share of the interval below which a piece is not halved (cost; then the interval stays open)."""

MOST_NETWORKS = 4000
"""Most networks looked at (cost); past it the interval stays open."""


def leakage(mechanism: Levelled | MetricDP, model: Contagion, against: Against = "any") -> Leakage:
    """Compute the leakage about one person, at the worst probability of the interval.

    Counts and histograms with (discrete) Laplace noise are searched until the bound closes. For all
    other algorithms, and for households too large for an exact answer, the general bound is in
    force: m epsilon for m people (Theorem 4.2 of [lange2024]).

    >>> from undertow.mechanisms import Laplace
    >>> from undertow.queries import Count
    >>> flu = Contagion(3, outside=.1, passed=(.1, .5))
    >>> leak = leakage(Laplace(Count("ill"), scale=1.0), flu)
    >>> at_most = network_leakage(Laplace(Count("ill"), scale=1.0), flu.network(.5))
    >>> at_most.lower <= leak.upper <= at_most.upper * 1.0002
    True
    """
    mechanism = refused(mechanism)
    low, high = model.passed
    ends = [network_leakage(mechanism, model.network(p), against) for p in (low, high)]
    top = max(ends, key=lambda leak: leak.lower)
    where = low if top is ends[0] else high
    if low == high:
        return top
    people = 1 if against == "informed" else dependent_records(model.network(high), against)
    level = mechanism.level_upper(model.length)
    ceiling = max(up(people * level), *(leak.upper for leak in ends))
    if any(leak.method not in ("exact", "informed") for leak in ends):
        notes = (
            f"at most {people} people depend on each other, in any way",
            _parameter_note(model, where),
        )
        return replace(
            top, upper=ceiling, method="group", assumptions=notes,
            citation="Theorem 4.2 of [lange2024]",
        )  # fmt: skip
    pieces: list[tuple[float, float, float]] = []

    def push(left: float, right: float) -> None:
        nonlocal top, where
        middle = (left + right) / 2
        centre = model.network(middle)
        leak = network_leakage(mechanism, centre, against)
        if leak.lower > top.lower:
            top, where = leak, middle
        # entries are monotone: the ends are the worst
        drift = max(_drift(centre, model.network(end)) for end in (left, right))
        heapq.heappush(pieces, (-min(up(leak.upper + 2 * drift), ceiling), left, right))

    push(low, high)
    looks = 1
    while (
        -pieces[0][0] - top.lower > CONTAGION_WIDTH * max(1.0, top.lower) and looks < MOST_NETWORKS
    ):
        if pieces[0][2] - pieces[0][1] < NARROW * (high - low):
            break  # at an end where something becomes impossible no piece is narrow enough
        _, left, right = heapq.heappop(pieces)
        push(left, (left + right) / 2)
        push((left + right) / 2, right)
        looks += 2
    upper = max(-pieces[0][0], *(leak.upper for leak in ends))
    return replace(top, upper=upper, assumptions=(*top.assumptions, _parameter_note(model, where)))


def _parameter_note(model: Contagion, where: float) -> str:
    low, high = model.passed
    return f"flu is passed on with probability {low:g} to {high:g}, the worst found is {where:.6g}"


def _drift(one: BayesianNetwork, two: BayesianNetwork) -> float:
    """Return by how much logarithms of joint probabilities can change differently, rounded up.

    Entries of tables, and their logarithms, carry a few roundings of their own each.
    """
    total = 0.0
    for first, second in zip(one.tables, two.tables, strict=True):
        moved = _log_changes(first, second)
        rarest = max(float(-np.log(table[table > 0].min())) for table in (first, second))
        # w: sums over the tables
        total += float(moved.max() - moved.min()) + 64 * ROUNDOFF * (2.0 + rarest)
    return up(total)


def _log_changes(first: Array, second: Array) -> Array:
    """Return the change of each logarithm, 0 where both are impossible, and where nothing moves.

    A change to or from an impossible value is infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(second) - np.log(first)
    moved[first == second] = 0.0
    return np.append(np.nan_to_num(moved, nan=np.inf, posinf=np.inf, neginf=-np.inf).ravel(), 0.0)


FREQUENCY_WIDTH = 1e-6
"""Relative width at which the worst frequency counts as found (upper side)."""

WORK = 4e8
"""Most cases times outputs looked at in one search (cost; past it the bracket stays open)."""

OUTWARDS = 1e-9
"""Margin added to both ends of a piece, so that rounded log-odds are inside."""

ALLELES = np.array([2.0, 1.0, 0.0])
"""Number of alleles B of each genotype."""


@dataclass(frozen=True, slots=True)
class FrequencyBracket:
    """The worst attack found, at which frequency, and a bound for all frequencies."""

    finding: CaseLoss
    frequency: float
    upper: float
    closed: bool


def frequency_bracket(
    family: Family, tally: AnswerLattice, rate: float, against: Against, low: float, high: float,
    ceiling: float,
) -> FrequencyBracket | None:  # fmt: skip
    """Return the worst case over all allele frequencies from ``low`` to ``high``.

    ``ceiling`` is a bound from elsewhere: the search ends once it is attained. None if no target
    has two values. Refuses with `NotSupported` what is too large.

    >>> from undertow.bounds.networks.counts import count_tally
    >>> from undertow.models.pedigrees import Pedigree
    >>> trio = Pedigree({"kim": ("bob", "ann")}).families()[0]
    >>> tally = count_tally([True, False, False], 3)
    >>> bracket = frequency_bracket(trio, tally, 1.0, "any", 0.5, 0.9, ceiling=3.0)
    >>> value = bracket.finding.value
    >>> round(value, 6), bracket.frequency, bracket.upper - value < 1e-5
    (2.869403, 0.9, True)
    """
    search = _FrequencySearch(family, tally, rate, against)
    first, last = (math.log(p) - math.log1p(-p) for p in (low, high))
    everyone = search.targets()
    for p in (low, high):
        search.look(p, 0.0, everyone)
    pieces: list[tuple[float, float, float, list[int]]] = []

    def push(left: float, right: float, targets: list[int]) -> None:
        centre, reach = (left + right) / 2, (right - left) / 2 + OUTWARDS  # in log-odds
        p = min(max(1 / (1 + math.exp(-centre)), low), high)
        bounds = search.look(p, reach, targets)
        heapq.heappush(pieces, (-max(bounds.values()), left, right, _open(bounds, search)))

    push(first, last, everyone)
    if search.top is None:
        return None
    while True:
        negative, left, right, targets = pieces[0]
        attained = search.top.value - search.top.pad
        closed = min(-negative, ceiling) - attained <= FREQUENCY_WIDTH * max(1.0, attained)
        if closed or search.work > WORK:
            upper = min(max(-negative, search.top.value + search.top.pad), ceiling)
            return FrequencyBracket(search.top, search.where, upper, closed)
        heapq.heappop(pieces)
        middle = (left + right) / 2
        push(left, middle, targets)
        push(middle, right, targets)


def _open(bounds: dict[int, float], search: "_FrequencySearch") -> list[int]:
    """Return the targets whose bounds exceed the attained loss."""
    attained = 0.0 if search.top is None else search.top.value - search.top.pad
    return [target for target, bound in bounds.items() if bound > attained] or [
        max(bounds, key=lambda target: bounds[target])
    ]


@dataclass(slots=True)
class _FrequencySearch:
    """The family and what was found so far."""

    family: Family
    tally: AnswerLattice
    rate: float
    against: Against
    top: CaseLoss | None = None
    where: float = 0.5
    work: float = 0.0

    def targets(self) -> list[int]:
        """Return the numbers of all targets: axes of one table, or one table each."""
        network = self.family.network(0.5)
        if self.against == "any":
            return spread(network, self.tally).targets()
        if isinstance(self.against, Adversary):
            return [self.against.target]
        return list(range(network.length))

    def look(self, frequency: float, reach: float, targets: list[int]) -> dict[int, float]:
        """Return the bound of each target around one frequency."""
        network = self.family.network(frequency)
        founders = [place for place, parents in enumerate(network.parents) if not parents]
        # second layer: E[B; case, count], B summed founder by founder
        variants = [{place: network.tables[place] * ALLELES} for place in founders if reach]
        if self.against == "any":
            whole = spread(network, self.tally, variants=variants)
            check_effort(whole, self.tally)
            return self._read(whole, network, frequency, reach, targets)
        places = network.places
        facts = self.against.known if isinstance(self.against, Adversary) else ()
        known = [places[record] for record in facts]
        bounds = {}
        for target in targets:
            whole = spread(network, self.tally, known, places[target], variants)
            bounds[target] = self._read(whole, network, frequency, reach, [0])[0]
        return bounds

    def _read(
        self, whole: JointLaws, network: BayesianNetwork, frequency: float, reach: float,
        axes: list[int],
    ) -> dict[int, float]:  # fmt: skip
        bounds, finding = _bounds_around(whole, network, self.tally, self.rate, axes, reach)
        self.work += math.prod(whole.sizes) * len(self.tally.outputs) * len(axes)
        if finding is None:
            return bounds
        top = self.top or finding
        far = max(finding.far, top.far)
        if self.top is None or finding.value > top.value:
            top, self.where = finding, frequency
        self.top = replace(top, far=far)
        return bounds


def _bounds_around(
    whole: JointLaws, network: BayesianNetwork, tally: AnswerLattice, rate: float,
    axes: Sequence[int], reach: float,
) -> tuple[dict[int, float], CaseLoss | None]:  # fmt: skip
    """Return max |f| + |f'| h + (u h)^2 over all attacks on each axis, and the largest |f|."""
    deepest = rate * tally.deepest
    if deepest - whole.least > ORDINARY:
        raise NotSupported("the noise is too small for exact arithmetic over all frequencies")
    pad = rounding(whole, deepest)
    # slopes are differences of ratios of two sums, each at most twice the number of founders
    blur = pad + 8.0 * pad * (1.0 + len(network.nodes)) * reach
    bounds = dict.fromkeys(axes, 0.0)
    top, far = None, 0.0
    states = range(len(tally.offsets))
    for block in whole.blocks(axes):
        scores, slopes = _scores(block.table, tally, rate)
        bulge = (reach * _unknown_founders(block, network)) ** 2  # h^2 u^2, (1, 1, cases ...)
        for axis in block.targets:
            # (outputs, cases) each
            value = [block.given(scores, axis, v)[0][tally.seen[v]] for v in states]
            slope = [block.given(slopes, axis, v)[0][tally.seen[v]] for v in states]
            # (1, cases): the same for every value of the target
            bend = block.given(bulge, axis, 0)[0]
            for x, y in combinations(states, 2):
                loss = np.abs(value[x] - value[y])
                impossible = np.isnan(loss)
                loss[impossible] = 0.0
                far = max(far, float(loss[tally.corners].max()))
                peak = bound = float(loss.max())
                if reach:
                    # f(t) + h |f'(t)| + h^2 u^2
                    steep = loss + reach * np.abs(slope[x] - slope[y]) + bend
                    steep[impossible] = 0.0
                    bound = float(steep.max())
                bounds[axis] = max(bounds[axis], bound + blur)
                if top is None or peak > top.value:
                    output, row = np.unravel_index(int(np.argmax(loss)), loss.shape)
                    first = value[x][output, row] >= value[y][output, row]
                    pair = (x, y) if first else (y, x)
                    top = loss_at(block, axis, int(row), pair, int(output), peak, pad)
    return bounds, None if top is None or not tally.deepest else replace(top, far=far)


def _unknown_founders(block: CaseTable, network: BayesianNetwork) -> Array:
    """Return how many founders are unknown in each case, in the shape of the block's table.

    A target who is a founder has a value; counted as unknown it only widens the bound.
    """
    spread = block.spread
    founders = {place for place, parents in enumerate(network.parents) if not parents}
    shape = block.table.shape[2:]
    total = np.full((1, 1, *shape), float(len(founders - {*spread.records})))
    states = len(spread.offsets)
    for axis, place in enumerate(spread.records):
        if place in founders and spread.open:
            here = [block.fixed[axis]] if axis in block.fixed else range(states + 1)
            # 1 where the founder is unknown
            open_state = np.array([float(state == states) for state in here])
            total += open_state.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return total


def _scores(table: Array, tally: AnswerLattice, rate: float) -> tuple[Array, Array]:
    """Return ln Pr[output | case] and its slope in the log-odds of the frequency."""
    prior = table.sum(axis=1, keepdims=True)  # (layers, 1, cases ...)
    with np.errstate(divide="ignore", invalid="ignore"):
        smooth = tally.smooth(table, rate, logs=False)  # (layers, outputs, cases ...)
        scores = np.log(smooth[:1] / prior[:1])
        if len(table) == 1:
            return scores, scores
        slopes = smooth[1:] / smooth[:1] - prior[1:] / prior[:1]  # E_g[B] - E[B]
    return scores, slopes


PROVERS: tuple[Prover, ...] = (AnswerProver("contagion", Contagion, leakage),)
