"""The table of the contract: models, mechanisms, adversaries, secrets and shapes of data.

Each entry names what the public functions take and how the oracle describes the same thing: a
model by the joint laws of its members, a mechanism by the likelihood of its outputs or by the
limits of all its likelihoods. `truth` evaluates a row by enumeration or by linear programs.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

import undertow as ut
from tests.contracts.approximate_oracle import gaussian_count_delta, worst_delta
from tests.oracles import gaussian as gaussian_oracle
from tests.oracles.models import tables_of
from undertow.errors import InvalidInput, NotSupported, UndertowError
from undertow.models.classes import ChainBox
from undertow.testing import enumeration as oracle

Floats = npt.NDArray[np.float64]

LEVEL, SCALE, SIGMA, DELTA = 0.7, 1.5, 1.2, 0.02
FACTORS = ("model", "mechanism", "adversary", "secret", "shape")


# --- models ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A model with joint laws over its states, in the order in which the model lists them.

    ``whole``: the laws are all of the model's, so that the largest leakage of a law is the truth;
    else they are some members, or a few records of an endless series, and it is a lower end.
    Gaussian records have a covariance instead of laws.
    """

    model: Any
    laws: tuple[Floats, ...]
    whole: bool = True
    covariance: Floats | None = None

    @property
    def size(self) -> int:
        """The number of states; 2 where records are real numbers."""
        return self.laws[0].shape[0] if self.covariance is None else 2

    @property
    def records(self) -> int:
        """The number of records of the laws."""
        return self.laws[0].ndim if self.covariance is None else len(self.covariance)

    @property
    def last(self) -> Any:
        """The state that is counted: the last one."""
        return self.model.states[-1] if self.covariance is None else 1


def stationary(matrix: Any) -> Floats:
    """The stationary law of a matrix, by its linear equations."""
    kernel = np.asarray(matrix, dtype=float)
    size = len(kernel)
    equations = np.vstack([kernel.T - np.eye(size), np.ones(size)])
    return np.asarray(np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0])


def chain(matrix: Any, records: int, length: int | None = 0, start: Any = None) -> Subject:
    """A chain of order one; ``length=None``: of any length, whose first records are the law."""
    length = records if length == 0 else length
    first = stationary(matrix) if start is None else np.asarray(start)
    states = tuple(range(len(first)))
    model = ut.MarkovChain(matrix, states, "stationary" if start is None else start, length)
    return Subject(model, (oracle.chain_joint(first, matrix, records),), length is not None)


def varying(matrices: Any, start: Any) -> Subject:
    """A chain with a matrix for each step."""
    states = tuple(range(len(start)))
    return Subject(ut.MarkovChain(matrices, states, start), (oracle.chain_joint(start, matrices),))


def periodic(matrices: Any, records: int, length: int | None = 0) -> Subject:
    """A chain whose matrices take turns, from its periodic law."""
    length = records if length == 0 else length
    first = stationary(np.linalg.multi_dot(matrices))
    steps = [matrices[step % len(matrices)] for step in range(records - 1)]
    model = ut.MarkovChain.periodic(matrices, (0, 1), length=length)
    return Subject(model, (oracle.chain_joint(first, steps),), length is not None)


def order_two(tensor: Any, records: int, length: int | None = 0) -> Subject:
    """A chain of order two; hidden state k x + y stands for x, then y."""
    length = records if length == 0 else length
    table = np.asarray(tensor, dtype=float)
    size = len(table)
    pairs = np.zeros((size,) * 4)
    for x, y in itertools.product(range(size), repeat=2):
        pairs[x, y, y] = table[x, y]
    kernel = pairs.reshape(size**2, size**2)
    symbols = [state % size for state in range(size**2)]
    law = oracle.hidden_joint(stationary(kernel), kernel, symbols, records)
    return Subject(ut.MarkovChain.second_order(tensor, length=length), (law,), length is not None)


def hidden(matrix: Any, symbols: Any, records: int, length: int | None = 0) -> Subject:
    """A hidden chain."""
    length = records if length == 0 else length
    law = oracle.hidden_joint(stationary(matrix), matrix, symbols, records)
    return Subject(ut.HiddenChain(matrix, symbols, length=length), (law,), length is not None)


def together(*subjects: Subject) -> Subject:
    """The set of some models."""
    laws = tuple(law for subject in subjects for law in subject.laws)
    whole = all(subject.whole for subject in subjects)
    return Subject(ut.ModelSet([subject.model for subject in subjects]), laws, whole)


def box(lower: Any, upper: Any, records: int) -> Subject:
    """A class of chains; its corners are tried."""
    corners = [
        chain([[1 - a, a], [b, 1 - b]], records).laws[0]
        for a in (lower[0][1], upper[0][1])
        for b in (lower[1][0], upper[1][0])
    ]
    return Subject(ChainBox(lower, upper, (0, 1), length=records), tuple(corners), whole=False)


def network(model: Any, whole: bool = True) -> Subject:
    """A network or a family, from its exact table of the observed records."""
    laws = []
    for table in tables_of(model):
        law = np.zeros((len(model.states),) * len(next(iter(table))))
        for values, probability in table.items():
            law[values] = float(probability)
        laws.append(law)
    return Subject(model, tuple(laws), whole)


def groups(size: int) -> Subject:
    """Any dependence inside groups: copies of one record, and independent ones, are tried."""
    copies, fair = np.zeros((2,) * size), np.full((2,) * size, 2.0**-size)
    copies[(0,) * size] = copies[(1,) * size] = 0.5
    return Subject(ut.Groups(size, states=(0, 1)), (copies, fair), whole=False)


def gaussian(covariance: Any) -> Subject:
    """Gaussian records."""
    matrix = np.asarray(covariance, dtype=float)
    return Subject(ut.MultivariateGaussian(0.0, matrix), (), covariance=matrix)


def equally(records: int, rho: float) -> Subject:
    """The class of Gaussian records of bounded correlations; equal ones are tried."""
    matrix = np.full((records, records), rho) + (1 - rho) * np.eye(records)
    return Subject(ut.MultivariateGaussian.bounded(records, rho), (), False, matrix)


STICKY, TURNING = [[0.85, 0.15], [0.3, 0.7]], [[0.3, 0.7], [0.6, 0.4]]
THREE = [[0.7, 0.2, 0.1], [0.25, 0.6, 0.15], [0.05, 0.3, 0.65]]
RISING = [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]]
FREE = [[[0.8, 0.2], [0.15, 0.85]], [[0.1, 0.9], [0.07, 0.93]]]
REGIMES = [[0.7, 0.2, 0.08, 0.02], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3],
           [0.02, 0.08, 0.2, 0.7]]  # fmt: skip
UNORDERED = [[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1],
             [0.05, 0.15, 0.1, 0.7]]  # fmt: skip
KERNEL = [[0.9, 0.1], [0.35, 0.65]]

MODELS: dict[str, Callable[[], Subject]] = {
    "sticky": lambda: chain(STICKY, 4),
    "sticky, endless": lambda: chain(STICKY, 4, None),
    "turning": lambda: chain(TURNING, 4),
    "elsewhere": lambda: chain(STICKY, 4, start=[0.1, 0.9]),
    "three states": lambda: chain(THREE, 3),
    "three states, endless": lambda: chain(THREE, 3, None),
    "varying": lambda: varying([STICKY, TURNING, [[1.0, 0.0], [0.4, 0.6]]], [0.5, 0.5]),
    "periodic": lambda: periodic([STICKY, TURNING], 4),
    "order two": lambda: order_two(RISING, 4),
    "order two, endless": lambda: order_two(RISING, 4, None),
    "order two, free": lambda: order_two(FREE, 4),
    "hidden": lambda: hidden(REGIMES, (0, 0, 1, 1), 4),
    "hidden, endless": lambda: hidden(REGIMES, (0, 0, 1, 1), 4, None),
    "hidden, free": lambda: hidden(UNORDERED, (0, 0, 1, 1), 4),
    "set": lambda: together(chain(STICKY, 4), chain(TURNING, 4)),
    "set of kinds": lambda: together(chain(STICKY, 4), order_two(RISING, 4)),
    "box": lambda: box([[0.8, 0.1], [0.25, 0.65]], [[0.9, 0.2], [0.35, 0.75]], 4),
    "groups": lambda: groups(3),
    "tree": lambda: network(ut.BayesianNetwork(
        [(0, 1), (0, 2), (2, 3)],
        {0: [0.7, 0.3], 1: KERNEL, 2: [[0.6, 0.4], [0.2, 0.8]], 3: KERNEL},
    )),
    "collider": lambda: network(ut.BayesianNetwork(
        [(0, 2), (1, 2)],
        {0: [0.6, 0.4], 1: [0.3, 0.7], 2: [[[0.95, 0.05], [0.6, 0.4]], [[0.5, 0.5], [0.1, 0.9]]]},
    )),
    "trio": lambda: network(ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.25)),
    "trio, unsure": lambda: network(
        ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=(0.25, 0.75)), whole=False
    ),
    "gaussian": lambda: gaussian([[1.0, 0.4, 0.1], [0.4, 2.0, -0.3], [0.1, -0.3, 1.5]]),
    "gaussian class": lambda: equally(3, 0.25),
}  # fmt: skip


@cache
def subject(name: str) -> Subject:
    """The model of a name."""
    return MODELS[name]()


# --- mechanisms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """A mechanism by the likelihood of its outputs, or by the limits of all its likelihoods.

    ``likelihood(subject, inside)`` is the table of an answer about the records in ``inside``, and
    ``limits(subject)`` bounds the likelihoods of every algorithm of the mechanism's level.
    """

    make: Callable[[Subject], Any]
    limits: Callable[[Subject], Any]
    likelihood: Callable[[Subject, range], Floats] | None = None
    delta: float = 0.0
    excess: Callable[[Floats, Floats, float], float] | None = None


def marked(subject: Subject, inside: range, values: Any) -> Floats:
    """Weights (records, states) of a sum over some of the records."""
    weights = np.zeros((subject.records, subject.size))
    weights[list(inside)] = values
    return weights


def last(subject: Subject) -> Floats:
    """Marks the last state."""
    return np.eye(subject.size)[-1]


def counted(subject: Subject, inside: range) -> Floats:
    """The likelihood of a noisy count of the last state."""
    weights = marked(subject, inside, last(subject))
    return oracle.additive_noise_likelihood(weights, SCALE, subject.records)


def summed(subject: Subject, inside: range) -> Floats:
    """The likelihood of a noisy sum of the states' numbers."""
    weights = marked(subject, inside, np.arange(subject.size))
    return oracle.additive_noise_likelihood(weights, SCALE, subject.records)


def binned(subject: Subject, inside: range) -> Floats:
    """The likelihood of a noisy histogram, one axis of outputs for all its counts."""
    table = np.ones((*(subject.size,) * subject.records, 1))
    for state in range(subject.size):
        weights = marked(subject, inside, np.eye(subject.size)[state])
        once = oracle.additive_noise_likelihood(weights, SCALE, subject.records)
        table = oracle.independent_releases(table, once)
    return table


def channel(subject: Subject) -> Floats:
    """A channel that tells each state from the next, more or less."""
    if subject.size == 2:
        return np.array([[0.8, 0.2], [0.35, 0.65]])
    return np.array([[0.7, 0.2, 0.1], [0.15, 0.6, 0.25], [0.1, 0.1, 0.8]])


def flipped(subject: Subject, inside: range) -> Floats:
    """The likelihood of a series whose records are flipped one by one."""
    return oracle.product_channel_likelihood([channel(subject)] * subject.records)


FLIPS = (0.3, 0.4)


def masked(subject: Subject, inside: range) -> Floats:
    """The likelihood of a series of bits to which a chain of bits is added."""
    law = np.array([[1 - FLIPS[0], FLIPS[0]], [FLIPS[1], 1 - FLIPS[1]]])
    noise = oracle.chain_joint(stationary(law), law, subject.records)
    series = np.indices(noise.shape).reshape(subject.records, -1)  # (record, series)
    table = noise[tuple(series[:, :, None] ^ series[:, None, :])]
    return np.asarray(table.reshape(*noise.shape, -1))


PROTECTED = 1


def rates(subject: Subject) -> Floats:
    """Probabilities of erasing a record by its state; the protected record always is."""
    table = np.tile(np.linspace(0.1, 0.6, subject.size), (subject.records, 1))
    table[PROTECTED] = 1.0
    return table


def erased(subject: Subject, inside: range) -> Floats:
    """The likelihood of a series of which some records are erased."""
    shares = rates(subject)
    shown = (1 - shares)[:, :, None] * np.eye(subject.size)  # (record, state, output)
    return oracle.product_channel_likelihood(np.concatenate([shown, shares[:, :, None]], axis=2))


def level(epsilon: float) -> Callable[[Subject], Any]:
    """The same limit between any two states."""
    return lambda subject: epsilon


def ratio_limits(subject: Subject) -> Floats:
    """The limits of a channel: the largest log-ratio of two rows."""
    rows = np.log(channel(subject))
    return np.asarray((rows[:, None] - rows).max(axis=2))


RATE = 0.4


def distances(subject: Subject) -> Floats:
    """RATE for each unit by which a record's number moves."""
    numbers = np.arange(subject.size)
    return np.abs(numbers[:, None] - numbers) * RATE


def count_law(law: Floats) -> Floats:
    """The law of the count of the last state."""
    counts = (np.indices(law.shape) == law.shape[0] - 1).sum(axis=0)
    return np.bincount(counts.ravel(), law.ravel()).astype(np.float64)


def normal_excess(one: Floats, two: Floats, epsilon: float) -> float:
    """The delta at epsilon of a Gaussian count of two laws of the records."""
    return float(gaussian_count_delta(count_law(one), count_law(two), SIGMA, epsilon, mpmath.fp))


APPROXIMATE = (0.6, 0.005)


def approximate_excess(one: Floats, two: Floats, epsilon: float) -> float:
    """The delta at epsilon that some algorithm of the approximate level attains."""
    return worst_delta(one, two, one.shape, [APPROXIMATE], epsilon)


RHO = 1 / (2 * SIGMA**2)  # of a Gaussian count, whose sensitivity is 1

MECHANISMS: dict[str, Release] = {
    "level": Release(lambda s: ut.PureDP(LEVEL), level(LEVEL)),
    "metric": Release(lambda s: ut.MetricDP(RATE), distances),
    "laplace count": Release(
        lambda s: ut.Laplace(ut.Count(s.last), SCALE), level(1 / SCALE), counted
    ),
    "discrete count": Release(
        lambda s: ut.DiscreteLaplace(ut.Count(s.last), SCALE), level(1 / SCALE), counted
    ),
    "histogram": Release(
        lambda s: ut.DiscreteLaplace(ut.Histogram(), SCALE), level(2 / SCALE), binned
    ),
    "sum": Release(
        lambda s: ut.Laplace(ut.Sum(0, s.size - 1), SCALE),
        lambda s: (s.size - 1) / SCALE, summed,
    ),
    "linear": Release(
        lambda s: ut.Laplace(ut.Linear([1.0] * s.records, spread=s.size - 1), SCALE),
        lambda s: (s.size - 1) / SCALE, summed,
    ),
    "flips": Release(lambda s: ut.RandomizedResponse(channel(s)), ratio_limits, flipped),
    "mask": Release(lambda s: ut.XorNoise(*FLIPS), level(math.inf), masked),
    "erasures": Release(
        lambda s: ut.Redaction(rates(s), protect=[PROTECTED]), level(math.inf), erased
    ),
    "gaussian count": Release(
        lambda s: ut.Gaussian(ut.Count(s.last), SIGMA), level(math.inf), None,
        DELTA, normal_excess,
    ),
    "approximate level": Release(
        lambda s: ut.ApproximateDP(*APPROXIMATE), level(math.inf), None, DELTA, approximate_excess
    ),
    "concentrated level": Release(
        lambda s: ut.ZCDP(RHO), level(math.inf), None, DELTA, normal_excess
    ),
}  # fmt: skip

ADVERSARIES: dict[str, Any] = {
    "any": "any",
    "ignorant": "ignorant",
    "informed": "informed",
    "past": ut.Adversary(1, [0]),
    "beyond": ut.Adversary(0, [2]),
}
SECRETS = ("record", "window", "person")
WINDOW = 2
SHAPES = ("series", "windows", "any")


@dataclass(frozen=True, order=True)
class Row:
    """One entry of each of the table's factors."""

    model: str
    mechanism: str
    adversary: str
    secret: str
    shape: str

    def __str__(self) -> str:
        return "-".join((self.model, self.mechanism, self.adversary, self.secret, self.shape))


LEVELS = (tuple(MODELS), tuple(MECHANISMS), tuple(ADVERSARIES), SECRETS, SHAPES)


def certified(
    mechanism: Any, model: Any, against: Any = "any", *, delta: float = 0.0, secret: Any = None,
    shape: Any = "series",
) -> Any:  # fmt: skip
    """The public leakage; the one place of these tests that names its options."""
    return ut.leakage(mechanism, model, against, delta=delta, valid_for=shape, secret=secret)


def ask(row: Row) -> Any:
    """The certified leakage of a row."""
    release = MECHANISMS[row.mechanism]
    subj = subject(row.model)
    mechanism: Any = release.make(subj)
    secret: Any = ut.Window(WINDOW) if row.secret == "window" else None
    if row.secret == "person":
        if row.mechanism in GUARANTEES:
            mechanism = replace(mechanism, unit="person")
        else:
            secret = "person"
    return certified(
        mechanism, subj.model, ADVERSARIES[row.adversary], delta=release.delta, secret=secret,
        shape=row.shape,
    )  # fmt: skip


GUARANTEES = ("level", "approximate level", "concentrated level")
LOCAL = ("flips", "mask", "erasures")
"""Released record by record: what is left out of a part is only less."""

AT_DELTA = tuple(name for name, release in MECHANISMS.items() if release.delta)
ORDER_ONE = ("sticky", "sticky, endless", "turning", "elsewhere", "three states",
             "three states, endless", "varying", "periodic", "set")  # fmt: skip
ORDER_TWO = ("order two", "order two, endless", "order two, free", "set of kinds")
HIDDEN = ("hidden", "hidden, endless", "hidden, free")
FAMILIES = ("trio", "trio, unsure")
NUMBERS = ("gaussian", "gaussian class")


def explicit(row: Row) -> bool:
    """Whether the adversary is explicit: pairwise bounds answer on every law of a chain."""
    return isinstance(ADVERSARIES[row.adversary], ut.Adversary)


def refusal(row: Row) -> type[UndertowError] | None:
    """The error that refuses a row, None if it has an answer."""
    model, mechanism = row.model, row.mechanism
    if row.secret == "person":
        if mechanism not in GUARANTEES:
            return InvalidInput
        return NotSupported if model in FAMILIES else None
    if mechanism in ("sum", "linear") and model in FAMILIES:  # whose states are no numbers
        return InvalidInput
    lowered = explicit(row) and model in (*HIDDEN, *ORDER_TWO)
    if row.secret == "window":
        known = model in (*ORDER_ONE, *ORDER_TWO, "box", "groups") or lowered
        return NotSupported if mechanism in ("metric", "mask", "erasures") or not known else None
    if mechanism in ("mask", "erasures"):
        if mechanism == "mask" and model.startswith("three states"):
            return InvalidInput
        wide = mechanism == "erasures" and isinstance(ADVERSARIES[row.adversary], str)
        known = model in ORDER_ONE or (wide and model in ORDER_TWO)
        return None if known else NotSupported
    if mechanism == "metric":
        return None if model in (*ORDER_ONE, "box") or lowered else NotSupported
    states = ("laplace count", "discrete count", "histogram", "gaussian count")
    if model in NUMBERS and mechanism in states and row.shape == "series":
        return NotSupported
    return None


def unbounded(row: Row) -> bool:
    """Whether no finite upper end is known: a delta grows with the records that move together.

    One adversary of an endless chain is bounded by the closed exchange alone, not by the sweep.
    """
    return row.mechanism == "approximate level" and (
        row.secret == "window"
        or row.model not in ORDER_ONE
        or (explicit(row) and row.model == "three states, endless")
    )


# --- the truth ------------------------------------------------------------------------------------


def against_of(row: Row) -> oracle.Against:
    """The adversary as the oracle writes it."""
    who = ADVERSARIES[row.adversary]
    if isinstance(who, ut.Adversary):
        return who.target, who.known
    named: oracle.Against = who
    return named


def width(row: Row) -> int:
    """The number of records that are secret together."""
    return WINDOW if row.secret == "window" else 1


def laws(row: Row) -> tuple[Floats, ...]:
    """The laws of a row's records; persons are independent, each like one record."""
    return (np.array([0.5, 0.5]),) if row.secret == "person" else subject(row.model).laws


def parts(row: Row, records: int) -> list[range]:
    """The records that may be answered about."""
    if row.shape == "series" or row.mechanism in LOCAL:
        return [range(records)]
    return [range(a, b) for a in range(records) for b in range(a + 1, records + 1)]


def truth(row: Row) -> tuple[float, float]:
    """What some law of a row's model leaks without a delta, and the most that any can."""
    subj = subject(row.model)
    if subj.covariance is not None and row.secret != "person":
        return gaussian_truth(row, subj)
    attained = max(_law_truth(row, number) for number in range(len(laws(row))))
    whole = subj.whole and not any_length(row)
    return attained, attained if whole or row.secret == "person" else math.inf


def any_length(row: Row) -> bool:
    """Whether a proof is about windows of series of any length, as its assumptions say."""
    counts = ("laplace count", "discrete count")
    return (
        row.shape == "windows"
        and row.mechanism in counts
        and row.model in (*ORDER_ONE, "set of kinds", "box")
    )


def gaussian_truth(row: Row, subj: Subject) -> tuple[float, float]:
    """The leakage of a linear statistic in closed form; of a level only that of one record."""
    assert subj.covariance is not None
    level = MECHANISMS[row.mechanism].limits(subj)
    if row.mechanism != "linear" or row.shape != "series":
        known = {"informed": subj.records - 1}.get(row.adversary, 0)
        return (0.0 if row.mechanism in ("sum", *LOCAL) else level), np.max(level) * (
            subj.records - known
        )
    factor, _ = gaussian_oracle.linear_factor(
        subj.covariance, [[1.0] * subj.records], ADVERSARIES[row.adversary]
    )
    return float(factor) / SCALE, float(factor) / SCALE if subj.whole else math.inf


@cache
def _law_truth(row: Row, number: int) -> float:
    subj, release = subject(row.model), MECHANISMS[row.mechanism]
    law, against = laws(row)[number], against_of(row)
    if row.secret == "person":
        return oracle.likelihood_leakage(law, release.limits(subj)).leakage
    if row.mechanism == "erasures" and isinstance(against, str):  # about the protected record
        known = {p.known for p in oracle.patterns(law, against) if p.secret == (PROTECTED,)}
        table = erased(subj, range(subj.records))
        return max(oracle.mechanism_leakage(law, table, (PROTECTED, k)).leakage for k in known)
    if release.likelihood is None or (row.shape == "any" and row.mechanism not in LOCAL):
        return _program(row.model, number, row.mechanism, against, width(row))
    return max(
        oracle.mechanism_leakage(law, release.likelihood(subj, inside), against, width(row)).leakage
        for inside in parts(row, subj.records)
    )


@cache
def _program(model: str, number: int, mechanism: str, against: Any, window: int) -> float:
    """The linear programs of a mechanism's level, whatever the shape of what is released."""
    subj = subject(model)
    limits = MECHANISMS[mechanism].limits(subj)
    return oracle.likelihood_leakage(subj.laws[number], limits, against, window).leakage


def delta_at(row: Row, epsilon: float) -> float:
    """The largest delta at an epsilon, over the laws and the adversaries of a row."""
    return max(
        (excess for number in range(len(laws(row))) for excess in _excesses(row, number, epsilon)),
        default=0.0,
    )


def _excesses(row: Row, number: int, epsilon: float) -> Iterator[float]:
    release = MECHANISMS[row.mechanism]
    law = laws(row)[number]
    assert release.excess is not None
    against: oracle.Against = "any" if row.secret == "person" else against_of(row)
    tried = set()
    for case in oracle.patterns(law, against, width(row)):
        both = [conditional(law, case, history) for history in (case.value, case.other)]
        key = tuple(np.round(both, 13).ravel())
        if key not in tried:
            tried.add(key)
            yield release.excess(both[0], both[1], epsilon)


def conditional(law: Floats, case: oracle.Pattern, history: tuple[int, ...]) -> Floats:
    """The law of the secret and the unknown records, given one history and what is known."""
    known = dict(zip(case.known, case.values, strict=True))
    secret = dict(zip(case.secret, history, strict=True))
    kept = np.zeros_like(law)
    place = tuple({**known, **secret}.get(t, slice(None)) for t in range(law.ndim))
    kept[place] = law[place]
    table = kept[tuple(known.get(t, slice(None)) for t in range(law.ndim))]
    return np.asarray(table / table.sum())
