"""What a count with noise from a table leaks: exact where all pairs of laws can be enumerated."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary, Against
from undertow.bounds.counts.gaussian import (
    CountSide,
    CountWindows,
    count_windows,
    fading,
    side_options,
    window_laws,
)
from undertow.bounds.graphs import attack_on
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    complete,
    ordered_pairs,
    start_error,
    witnessed,
)
from undertow.bounds.networks.counts import (
    LONGEST,
    AnswerLattice,
    CaseTable,
    JointLaws,
    count_tally,
    found_at,
    spread,
)
from undertow.bounds.networks.leakages import TOGETHER, lifted
from undertow.bounds.protocol import Problem
from undertow.certificate import Leakage, Witness
from undertow.errors import EffortSpent, NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, pad_log, up
from undertow.queries import BaseQuery

__all__ = [
    "BLOCK",
    "TABLES",
    "ChainPairs",
    "CountPairs",
    "Losses",
    "NetworkPairs",
    "PairSource",
    "Part",
    "TableProver",
    "VaryingPairs",
    "chain_pairs",
    "joined",
    "network_pairs",
    "parts_of",
    "shifted_law",
    "sources",
    "table_leakage",
    "varying_pairs",
    "windows_of",
]


BLOCK = 2**22
"""Most entries of the table of windows and answers that is looked at together (memory)."""

FAINT = 1e-280
"""Least likelihood of an answer whose sums have lost nothing to underflow (lower side)."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The largest losses of some pairs: certified ends, and the pair and answer of the lower one.

    ``where`` is -1 if no pair is attained.
    """

    lower: float
    upper: float
    where: int
    answer: int


@dataclass(frozen=True, slots=True)
class CountPairs:
    """All pairs of laws of a count that adversaries can tell apart, (pairs, counts) each.

    ``slack`` (pairs,) is how much more than its own loss a pair must be charged with, because it
    stands for others too; ``real`` (pairs,) whether some adversary really sees this pair; ``pad``
    bounds what rounding can have done to the log of a ratio of two entries.
    """

    laws: Array
    others: Array
    slack: Array
    real: Bools
    pad: float

    @property
    def counts(self) -> int:
        """How many counts there are."""
        return int(self.laws.shape[1])

    def error(self, answers: int) -> float:
        """Return how far the log of a computed ratio can lie from the true one."""
        return self.pad + 8.0 * (2 * self.counts + answers + 16) * ROUNDOFF

    def losses(self, noise: TabulatedNoise) -> Losses:
        """Return the largest loss over all pairs and all answers, as certified ends."""
        if not len(self.laws):
            return Losses(0.0, 0.0, -1, 0)
        table = shifted_law(noise, self.counts)  # (counts, answers)
        pad = self.error(table.shape[1])
        upper, lower, where, answer = 0.0, 0.0, -1, 0
        for part, ratio in self._ratios(table):
            top = ratio.max(axis=1)  # (pairs of this block,)
            upper = max(upper, float((top + self.slack[part]).max()) + pad)
            seen = np.where(self.real[part], top, -np.inf)
            at = int(seen.argmax())
            if seen[at] - pad > lower:
                lower, where = float(seen[at]) - pad, part.start + at
                answer = noise.first + int(ratio[at].argmax())
        return Losses(lower, upper, where, answer)

    def _ratios(self, table: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the log ratios (pairs, answers) of some pairs at a time."""
        step = max(1, BLOCK // table.shape[1])
        for start in range(0, len(self.laws), step):
            part = slice(start, min(start + step, len(self.laws)))
            one, two = self.laws[part] @ table, self.others[part] @ table
            if min(float(one.min()), float(two.min())) < FAINT:
                raise NotSupported(
                    "some answers are too improbable for exact arithmetic with this noise; use "
                    "method='exact'"
                )
            yield part, np.log(one / two)


def shifted_law(noise: TabulatedNoise, counts: int) -> Array:
    """Return g(s - j) for the counts j and the answers s = first .. last + counts - 1."""
    first, last = noise.first, noise.last
    law = noise.law(first - counts + 1, last + counts - 1)
    return windows_of(law, counts)


def windows_of(law: Array, counts: int) -> Array:
    """Return T[j, s] = law[counts - 1 - j + s]: a law read at s - j, (counts, answers)."""
    answers = len(law) - counts + 1
    place: Ints = np.arange(answers)[None, :] + (counts - 1 - np.arange(counts))[:, None]
    return np.asarray(law[place])


def joined(pieces: Sequence[CountPairs]) -> CountPairs:
    """Return the pairs of several models together."""
    counts = max(pairs.counts for pairs in pieces)

    def wide(law: Array) -> Array:
        return np.pad(law, ((0, 0), (0, counts - law.shape[1])))

    real: npt.NDArray[np.bool_] = np.concatenate([pairs.real for pairs in pieces])
    return CountPairs(
        np.concatenate([wide(pairs.laws) for pairs in pieces]),
        np.concatenate([wide(pairs.others) for pairs in pieces]),
        np.concatenate([pairs.slack for pairs in pieces]),
        real,
        max(pairs.pad for pairs in pieces),
    )


ETA = 2e-5
"""Share of a limit that sides beyond the reach should cost at most (upper side)."""

COARSE = 1e-2
"""Share beyond which that cost is not accepted, where more windows are too many."""

LARGEST = 1.2e7
"""Most entries of the laws of all windows (memory and cost)."""

OPEN = 96
"""Most records of a series whose windows without known records are all enumerated."""


class ChainPairs:
    """The pairs of a chain, and the attack that each of them stands for."""

    def __init__(self, chain: MarkovChain, windows: CountWindows, against: Against) -> None:
        """Keep the windows with what rounding can have done to them."""
        self.chain, self.windows = chain, windows
        reach = int(max(side.span.max() for side in windows.sides))
        counts = windows.laws.shape[1]
        # steps of both sides, a division for what is known, and the convolution of the sides
        pad = 2 * pad_log(2 * reach + 4, chain.size) + 2 * pad_log(counts + 4, 1)
        slack = np.where(windows.edge, windows.eta, 0.0)
        real = np.ones(len(slack), bool) if against == "any" else ~windows.edge
        if (
            chain.length is None
        ):  # series of a single record are not meant, but bounded all the same
            spans = [side.span[windows.options[:, i]] for i, side in enumerate(windows.sides)]
            real = real & (spans[0] + spans[1] > 0)
        self.pairs = CountPairs(windows.laws, windows.others, slack, real, pad + start_error(chain))

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less what known records contribute."""
        windows, chain = self.windows, self.chain
        result = windows.witness(where, answer)
        states = {record: chain.index(value) for record, value in result.known}
        left, right = (int(option) for option in windows.options[where])
        nearest = [
            int(side.value[option])
            for side, option in zip(windows.sides, (left, right), strict=True)
            if side.shut[option]
        ]
        own = sum(bool(windows.counted[state]) for state in nearest)
        known = complete(chain, states, result.target, result.length)
        pair = (int(windows.pair[where, 0]), int(windows.pair[where, 1]))
        return witnessed(chain, result.target, result.length, known, pair, output=answer - own)


def chain_pairs(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> ChainPairs:
    """Return all windows of a stationary chain that visits all its states, or refuse.

    ``counted`` says which states are counted, ``limit`` how large a leakage is looked at: the
    longer sides may cost a small share of it.
    """
    ignorant = against == "ignorant"
    return _pairs(chain, counted, _reach(chain, limit, ignorant), ignorant)


@lru_cache(maxsize=2)
def _pairs(chain: MarkovChain, counted: tuple[bool, ...], reach: int, ignorant: bool) -> ChainPairs:
    windows = count_windows(chain, np.array(counted), reach, known=not ignorant)
    return ChainPairs(chain, windows, "ignorant" if ignorant else "any")


def _reach(chain: MarkovChain, limit: float, ignorant: bool) -> int:
    """Return up to which distance sides are enumerated, or refuse a chain of long memory."""
    most = np.inf if chain.length is None else chain.length - 1
    if ignorant and most < OPEN:
        return int(most)
    reach, cost = 8, np.inf
    while True:
        reach = int(min(reach, most))
        cost = 0.0 if reach >= most else fading(chain, reach)
        if cost <= ETA * limit or _entries(chain.size, reach + 8) > LARGEST:
            break
        reach += 8
    if cost > COARSE * limit:
        raise NotSupported(
            "the windows of this chain are too many to enumerate: it remembers for more than "
            f"{reach} records; use method='exact' or 'exchange'"
        )
    return reach


def _entries(size: int, reach: int) -> float:
    options = reach * (size + 1) + 1
    windows = options**2 / (2 if size == 2 else 1)
    return float(windows * size * (size - 1) * (2 * reach + 2))


NETWORKS_LARGEST = 6e6
"""Most entries of the laws of all cases (memory and cost)."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of a model that depend on each other, as a network of their own.

    ``records`` are their numbers in the model, ``whole`` whether no others depend on the answer: a
    pair of a part is attained where the rest is known.
    """

    network: BayesianNetwork
    records: tuple[int, ...]
    length: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Cases:
    """Pairs that stand together: cases of one target and two of its values."""

    start: int
    block: CaseTable
    axis: int
    rows: Any
    pair: tuple[int, int]


class NetworkPairs:
    """The pairs of one part, and the attack that each of them stands for."""

    def __init__(self, part: Part, pairs: CountPairs, cases: list[_Cases]) -> None:
        """Keep the pairs and where they come from."""
        self.part, self.pairs, self.cases = part, pairs, cases

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a case at an answer, less what known records contribute."""
        place = max(number for number, cases in enumerate(self.cases) if cases.start <= where)
        result = self.cases[place]
        row = int(result.rows[where - result.start])
        finding = found_at(result.block, result.axis, row, result.pair, 0, 0.0, 0.0)
        attack = attack_on(
            self.part.network, finding.target, finding.states, dict(finding.known), {}
        )
        return replace(lifted(attack, self.part.records, self.part.length), output=answer)


def parts_of(model: Any, against: Against) -> list[Part]:
    """Return the parts of a network, a pedigree or a household that are looked at apart.

    The worst attacker knows all records outside a part; one who knows nothing sees a sum over all
    of them, of which the part is one summand: what it alone leaves open is an upper end.
    """
    kind = model.kind
    if kind == "contagion":
        low, high = model.passed
        model = _settled(low, high) and model.network(low)
    elif kind == "pedigree":
        low, high = model.frequencies
        _settled(low, high)
        number = {person: place for place, person in enumerate(model.people)}
        families = {family.shape(): family for family in model.families()}
        alone = against == "any" or len(model.families()) == 1
        networks = [family.network(low) for family in families.values()]
        return [
            Part(net, tuple(number[node] for node in net.observed), model.length, alone)
            for net in networks
        ]
    if against != "any" and model.length <= TOGETHER:
        return [Part(model, tuple(range(model.length)), model.length, whole=True)]
    place = {node: number for number, node in enumerate(model.observed)}
    alike = {part.shape(): part for part in model.parts()}
    return [
        Part(net, tuple(place[node] for node in net.observed), model.length, against == "any")
        for net in alike.values()
    ]


def _settled(low: float, high: float) -> bool:
    if low < high:
        raise NotSupported(
            "noise of any shape is planned for one network, found an interval of probabilities; "
            "pass a number, or use method='exact'"
        )
    return True


@lru_cache(maxsize=8)
def network_pairs(part: Part, counted: tuple[bool, ...], against: Against) -> NetworkPairs | None:
    """Return all cases of a part, None if no record is uncertain, or refuse what is too large."""
    network = part.network
    tally = count_tally(counted, network.length)
    laws, others, cases, operations, start = [], [], [], 0, 0
    for whole, axes in _spreads(network, tally, against):
        operations = max(operations, whole.operations)
        for block in whole.blocks(axes):
            for axis in block.targets:
                for pair in permutations(range(network.size), 2):
                    one, two, rows = _laws(block, axis, pair, tally)
                    if len(rows):
                        laws.append(one)
                        others.append(two)
                        cases.append(_Cases(start, block, axis, rows, pair))
                        start += len(rows)
                        _check_entries(start * one.shape[1])
    if not start:
        return None
    pad = 4.0 * (operations + 6 * (network.length + 1) + 8) * ROUNDOFF
    every = np.full(start, part.whole)
    pairs = CountPairs(np.concatenate(laws), np.concatenate(others), np.zeros(start), every, pad)
    return NetworkPairs(part, pairs, cases)


def _spreads(
    network: BayesianNetwork, tally: AnswerLattice, against: Against
) -> Iterator[tuple[JointLaws, list[int]]]:
    """Yield the joint laws behind all adversaries, or behind who knows nothing."""
    if against == "any":
        whole = spread(network, tally)
        states = network.size
        cases = math.prod(float(size) for size in whole.sizes) * len(whole.targets())
        _check_entries(cases * (states - 1) * (network.length + 1) * states / (states + 1))
        yield whole, whole.targets()
        return
    if network.length > LONGEST:
        raise NotSupported(f"{network.length} records depend on each other, too many to sum over")
    for target in network.places:
        yield spread(network, tally, (), target), [0]


def _laws(
    block: CaseTable, axis: int, pair: tuple[int, int], tally: AnswerLattice
) -> tuple[Array, Array, Any]:
    """Return the laws of the count under two values, (cases, counts), where both are possible."""
    tables = [block.given(block.table, axis, value)[0] for value in pair]  # (counts, cases)
    priors = [table.sum(axis=0) for table in tables]  # (cases,)
    rows = np.flatnonzero((priors[0] > 0) & (priors[1] > 0))
    shifted = []
    for table, prior, value in zip(tables, priors, pair, strict=True):
        law = (table[:, rows] / prior[rows]).T  # (cases, counts)
        # the target's own value counts too; the last count is free, since it was left out
        shifted.append(np.roll(law, tally.offsets[value], axis=1))
    return shifted[0], shifted[1], rows


def _check_entries(entries: float) -> None:
    if entries > NETWORKS_LARGEST:
        raise NotSupported(
            "there are too many ways to know some of the records for noise of any shape; use "
            "method='exact'"
        )


VARYING_LARGEST = 6e6
"""Most entries of the laws of all windows (memory and cost)."""


class VaryingPairs:
    """The pairs of a chain, position by position, and the attack that each of them stands for.

    ``places`` (pairs, 7): the target, its two values, and on each side the distance of the known
    record and its value, -1 where nothing is known.
    """

    def __init__(self, chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> None:
        """Enumerate the windows of every target."""
        self.chain, self.counted = chain, counted
        records, marks = _length(chain), np.array(counted)
        laws: list[Array] = []
        others: list[Array] = []
        places: list[Ints] = []
        marginals = chain.marginals(records)
        back = _backwards(chain, marginals)
        for target in range(records):
            steps = [back[t] for t in range(target - 1, -1, -1)]
            ahead = [chain.step(t) for t in range(target, records - 1)]
            left, right = (side_options(side, marks, not ignorant) for side in (steps, ahead))
            options = _options(left, right)
            for x, y in zip(*ordered_pairs(chain.size), strict=True):
                if min(marginals[target, x], marginals[target, y]) == 0:
                    continue
                # (options,): what is known can occur with either value
                seen = [
                    (side.prior[options[:, i]][:, [x, y]] > 0).all(axis=1)
                    for i, side in enumerate((left, right))
                ]
                own = options[seen[0] & seen[1]]
                for tables, value in ((laws, x), (others, y)):
                    law = window_laws(left, right, own, int(value), counted[value])
                    # the sides' counts and the target's: padded to those of the whole series
                    tables.append(np.pad(law, ((0, 0), (0, records + 3 - law.shape[1]))))
                ends = [
                    np.where(side.shut, entry, -1)[own[:, i]]
                    for i, side in enumerate((left, right))
                    for entry in (side.span, side.value)
                ]
                places.append(np.stack([*np.tile([[target], [x], [y]], len(own)), *ends], axis=1))
        # both sides: a step, a division by marginals for each record, what is known, convolution
        steps_pad = 4 * records * pad_log(records + 4, chain.size)
        pad = 2 * pad_log(2 * records + 4, chain.size) + 2 * pad_log(records + 8, 1) + steps_pad
        first, second = np.concatenate(laws), np.concatenate(others)
        self.places: Ints = np.concatenate(places)
        none = np.zeros(len(first))
        self.pairs = CountPairs(first, second, none, none == 0, pad)

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less what known records contribute."""
        target, x, y, *ends = (int(part) for part in self.places[where])
        signs = ((-1, ends[0], ends[1]), (1, ends[2], ends[3]))
        known = {target + sign * far: value for sign, far, value in signs if value >= 0}
        own = sum(self.counted[value] for value in known.values())
        records = _length(self.chain)
        path = complete(self.chain, known, target, records)
        return witnessed(self.chain, target, records, path, (x, y), output=answer - own)


def varying_pairs(chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> VaryingPairs:
    """Return all windows of a chain of a stated length, or refuse one with too many of them.

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], start=[1, 0], length=2)
    >>> varying_pairs(chain, (False, True), False).pairs.laws.shape  # the second record alone
    (4, 5)
    """
    records = chain.length
    if records is None:
        raise NotSupported(
            "the windows of a count are enumerated for stationary chains, and for chains of a "
            "stated length; use method='exact' or 'exchange'"
        )
    wide = 1 if ignorant else (records * chain.size / 2) ** 2
    if records**2 * wide * chain.size * (chain.size - 1) > VARYING_LARGEST:
        raise NotSupported(
            f"the windows of {records} records whose steps differ, or whose start is given, are "
            "too many to enumerate; use method='exact' or 'exchange'"
        )
    return _varying_pairs(chain, counted, ignorant)


_varying_pairs = lru_cache(maxsize=2)(VaryingPairs)


def _length(chain: MarkovChain) -> int:
    """Return the number of records, which is stated here."""
    return chain.length or 0


def _backwards(chain: MarkovChain, marginals: Array) -> list[Array]:
    """Return Pr[record t | record t + 1] for every t, rows of impossible states 0."""
    kernels = []
    for t in range(len(marginals) - 1):
        joint = marginals[t][:, None] * chain.step(t)  # (state at t, state at t + 1)
        after = marginals[t + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            kernels.append(np.where(after[:, None] > 0, joint.T / after[:, None], 0.0))
    return kernels


def _options(left: CountSide, right: CountSide) -> Ints:
    """Return what may be known on both sides together: open sides reach to the ends, (options, 2).

    Open after fewer records than there are is no option of this target.
    """
    each = [
        np.flatnonzero(side.shut | (side.span == side.span.max())) for side in (left, right)
    ]  # fmt: skip
    first, second = np.meshgrid(*each, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1)


METHOD = "exact"
_CITATION = "docs, theory: least noise of any shape"

_FOLLOWS = "the records depend on each other as the model says"


class PairSource(Protocol):
    """Pairs of laws, and the attack that each stands for."""

    pairs: CountPairs

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a pair at an answer."""
        ...


def sources(query: BaseQuery, model: Model, against: Against, limit: float) -> list[PairSource]:
    """Return all pairs of laws of a count on a model, or refuse with `NotSupported`.

    None if no record is uncertain, or none matters. ``limit`` is how large a leakage is looked at.
    """
    if against not in ("any", "ignorant"):
        raise NotSupported(
            "noise of any shape is proved against 'any' and 'ignorant'; use method='exact'"
        )
    counted = tuple(state in query.named for state in model.states)
    if len(set(counted)) == 1 and model.family in ("chain", "network"):
        return []  # the answer is the number of records, or 0
    pairs: list[PairSource | None]
    if isinstance(model, MarkovChain):
        pairs = [_chain_source(model, counted, against, limit)]
    elif model.family == "network":
        pairs = [network_pairs(part, counted, against) for part in parts_of(model, against)]
    else:
        raise NotSupported(
            f"noise of any shape needs the law of a count, which {model.describe()} does not "
            "give; use method='exchange'"
        )
    return [one for one in pairs if one is not None]


def _chain_source(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> PairSource | None:
    """Return the pairs of laws on a chain, None if no record is uncertain or the count is."""
    reduced = chain.visited()
    if reduced is None:
        return None
    marks = tuple(counted[chain.index(state)] for state in reduced.states)
    if len(set(marks)) == 1:
        return None
    if reduced.homogeneous and isinstance(reduced.start, str):
        return chain_pairs(reduced, marks, against, limit)
    return varying_pairs(reduced, marks, against == "ignorant")


def table_leakage(
    noise: TabulatedNoise, model: Model, against: Against, limit: float | None = None
) -> Leakage:
    """Return the exact leakage of a count with noise from a table, as certified interval.

    Against ``any`` and ``ignorant``; cost (pairs of laws) x (counts) x (answers). Refuses with
    `NotSupported` where the pairs of laws are too many, or not known.

    >>> from undertow.queries import Count
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> noise = TabulatedNoise(Count(1), -1, (2**126, 2**127, 2**126), 0.5)
    >>> leak = table_leakage(noise, chain, "any")
    >>> round(leak.lower, 4), leak.closed
    (3.1499, True)
    """
    if against == "informed" or isinstance(against, Adversary):
        bracket = Leakage(
            0.0, noise.level_upper(), "informed", against, None, (_FOLLOWS,), _CITATION
        )
        if against == "informed":
            return bracket
        worst = table_leakage(noise, model, "any", limit)
        return Leakage(0.0, worst.upper, METHOD, against, None, (_FOLLOWS,), _CITATION)
    lower, upper, witness = 0.0, 0.0, None
    for source in sources(noise.query, model, against, limit or noise.level_upper()):
        losses = source.pairs.losses(noise)
        upper = max(upper, up(losses.upper))
        if losses.lower > lower:
            lower, witness = losses.lower, source.witness(losses.where, losses.answer)
    return Leakage(lower, upper, METHOD, against, witness, (_FOLLOWS,), _CITATION)


@dataclass(frozen=True, slots=True)
class TableProver:
    """Counts with noise from a table, on every model that gives the law of a count."""

    name: str = METHOD

    def supports(self, problem: Problem) -> bool:
        """Tell whether the noise is from a table, about one record and on whole series."""
        return problem.about_one_record and isinstance(problem.mechanism, TabulatedNoise)

    def prove(self, problem: Problem) -> Leakage:
        """Return the exact leakage, or refuse a model without a law of counts."""
        if not isinstance(problem.mechanism, TabulatedNoise):
            raise NotSupported("noise from a table is required")
        try:
            return table_leakage(problem.mechanism, problem.model, problem.against)
        except EffortSpent as error:  # the level of the table needs no pairs of laws
            raise NotSupported("the pairs of laws need more effort than allowed") from error


TABLES = TableProver()
