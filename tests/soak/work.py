"""The long comparisons: random cases against the oracle, and draws against their law.

Every case is determined by its number, so a failure is repeated with `count_case(number)`,
`exact_case(number)` or `exchange_case(number)`.
"""

import itertools
import math
import time
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

import undertow as ut
from tests.contracts.chains import FAMILIES, Example, adversary, example
from tests.oracles.samples import chi_square, laplace_cdf, limit
from undertow.certificate import Leakage
from undertow.errors import UndertowError
from undertow.sampling.integers import discrete_laplace
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    adversaries,
    chain_joint,
    mechanism_leakage,
    pure_dp_leakage,
)

ROUNDING = 1e-12  # of the oracle's sums, relative to max(1, value)
PROGRAM = 1e-9  # of the oracle's linear programs, below the optimum
WIDE = 1e-8  # an interval wider than this, relative to max(1, upper), counts as open
DUST = Decimal("1e-40")  # of 50-digit arithmetic
SHAPE = 1e-9  # chi-square level of the draws
SCALES = (0.3, 1.0, 4.0, 37.5, 1000.0)
SIZES = [(2, n) for n in (2, 3, 4, 5)] + [(3, n) for n in (2, 3, 4, 5)] + [(4, 2), (4, 3), (4, 4)]
NAMES = sorted(FAMILIES)
FAULTS = (ArithmeticError, LookupError, TypeError, ValueError, Warning)


@dataclass
class Tally:
    """What a run of comparisons saw."""

    cases: int = 0
    programs: int = 0
    skipped: int = 0
    open: int = 0
    lower_excess: float = -math.inf
    upper_lack: float = -math.inf
    width: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, leak: Leakage, truth: float, error: float, exact: bool) -> None:
        """Compare one certified interval with the oracle's value, short of it by `error`."""
        self.cases += 1
        unit = max(1.0, truth)
        above, below = (leak.lower - truth) / unit, (truth - leak.upper) / unit
        self.lower_excess = max(self.lower_excess, above)
        self.upper_lack = max(self.upper_lack, below)
        width = (leak.upper - leak.lower) / max(1.0, leak.upper)
        if exact:
            self.width = max(self.width, width)
            self.open += width > WIDE
        if above > ROUNDING + error or below > ROUNDING or not leak.lower <= leak.upper:
            self.failures.append(
                f"{name}: [{leak.lower!r}, {leak.upper!r}], the oracle has {truth!r}"
            )


def _sharpened(rng: np.random.Generator, chain: Example) -> Example:
    """Return the chain with its small probabilities made smaller, down to about 1e-16."""
    power = int(rng.choice([1, 1, 1, 3, 8]))
    rows = chain.transition**power
    return Example(chain.name, rows / rows.sum(axis=-1, keepdims=True), chain.start, chain.length)


def _case(number: int, stream: int) -> tuple[np.random.Generator, Example, Any]:
    """Return a generator, a chain and an adversary, as the oracle names it."""
    rng = np.random.default_rng([stream, number])
    k, n = SIZES[rng.integers(len(SIZES))]
    if stream == 0 and k < 4 and rng.random() < 0.1:
        k, n = 4, 5
    chain = example(NAMES[number % len(NAMES)], k, n, seed=int(rng.integers(2**31)))
    who: Any = ("any", "any", "ignorant", "informed", "one")[rng.integers(5)]
    if who == "one":
        who = adversary(chain, int(rng.integers(2**31)))
    return rng, chain, who


def _against(who: Any) -> Any:
    return who if isinstance(who, str) else ut.Adversary(*who)


def _count(number: int) -> tuple[str, Example, Any, Any, Any]:
    """Return a random noisy count: name, chain, mechanism, counted states, adversary."""
    rng, chain, who = _case(number, 0)
    chain = _sharpened(rng, chain)
    counted = rng.random(chain.size) < 0.5
    counted[rng.integers(chain.size)] = True
    scale = float(np.exp(rng.uniform(math.log(0.1), math.log(30.0))))
    states = [int(state) for state in np.flatnonzero(counted)]
    noise = (ut.Laplace, ut.DiscreteLaplace)[number % 2](ut.Count(states), scale)
    name = f"count {number}: {chain}, {who}, scale {scale:.4g}, states {states}"
    return name, chain, noise, counted, who


def count_case(number: int) -> tuple[str, Leakage, float, bool]:
    """Return the name of a random noisy count, its certified leakage and the enumerated one."""
    name, chain, noise, counted, who = _count(number)
    model = chain.model()
    joint = chain_joint(model.initial, chain.transition, length=chain.length)
    table = additive_noise_likelihood(counted.astype(int), noise.scale, chain.length)
    truth = mechanism_leakage(joint, table, who).leakage
    return name, ut.leakage(noise, model, _against(who)), truth, isinstance(who, str)


def exact_case(number: int) -> tuple[str, Leakage, Decimal] | None:
    """Return the same in 50-digit arithmetic, where no rounding excuses an end on the wrong side.

    None where a chain is too large for it.
    """
    name, chain, noise, counted, who = _count(number)
    if chain.size**chain.length > 64:
        return None
    model, n = chain.model(), chain.length
    steps = np.broadcast_to(model.transition, (n - 1, chain.size, chain.size))
    with localcontext() as context:
        context.prec = 50
        decay = [(-Decimal(gap) / Decimal(noise.scale)).exp() for gap in range(n + 1)]
        series = []  # (records, probability, likelihood of the answers 0 .. n)
        for records in itertools.product(range(chain.size), repeat=n):
            probability = Decimal(float(model.initial[records[0]]))
            for step, (x, y) in zip(steps, itertools.pairwise(records), strict=True):
                probability *= Decimal(float(step[x, y]))
            answer = sum(int(counted[state]) for state in records)
            if probability:
                series.append(
                    (records, probability, [decay[abs(s - answer)] for s in range(n + 1)])
                )
        worst = Decimal(1)
        for target, known in known_sets(n, who):
            masses: dict[Any, dict[int, list[Decimal]]] = {}
            for records, probability, likelihood in series:
                facts = masses.setdefault(tuple(records[record] for record in known), {})
                sums = facts.setdefault(records[target], [Decimal(0)] * (n + 2))
                for place, weight in enumerate((Decimal(1), *likelihood)):
                    sums[place] += probability * weight
            for facts in masses.values():
                for top, bottom in itertools.permutations(facts.values(), 2):
                    prior = bottom[0] / top[0]
                    worst = max(worst, *(prior * a / b for a, b in zip(top, bottom, strict=True)))
        truth = worst.ln()
    return name, ut.leakage(noise, model, _against(who)), truth


def known_sets(n: int, who: Any) -> list[tuple[int, tuple[int, ...]]]:
    """Return every (target, known records) that an adversary's name stands for."""
    if not isinstance(who, str):
        return [who]
    found = []
    for target in range(n):
        others = [record for record in range(n) if record != target]
        sizes = {"any": range(n), "ignorant": [0], "informed": [n - 1]}[who]
        for size in sizes:
            found += [(target, known) for known in itertools.combinations(others, size)]
    return found


def exchange_case(number: int) -> tuple[str, Leakage, float, int]:
    """Return a random chain's exchange, certified and by linear programs, and their number."""
    rng, chain, who = _case(number, 1)
    if who == "any" and chain.size**chain.length > 27:
        who = adversary(chain, int(rng.integers(2**31)))
    epsilon = float(np.exp(rng.uniform(math.log(0.05), math.log(4.0))))
    programs = sum(len(case.pairs) for case in adversaries(chain.joint, who))
    name = f"exchange {number}: {chain}, {who}, epsilon {epsilon:.4g}"
    leak = ut.leakage(ut.PureDP(epsilon), chain.model(), _against(who))
    return name, leak, pure_dp_leakage(chain.joint, epsilon, who).leakage, programs


def run_counts(seconds: float, most: int) -> Tally:
    """Compare noisy counts with enumeration until the time or the cases run out."""
    tally, end = Tally(), time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        try:
            name, leak, truth, exact = count_case(number)
        except (*FAULTS, UndertowError) as error:
            tally.failures.append(f"count {number}: {type(error).__name__}: {error}")
            continue
        tally.add(name, leak, truth, 0.0, exact)
    return tally


def run_exact(seconds: float, first: int, most: int) -> tuple[int, list[str]]:
    """Compare noisy counts with 50-digit enumeration; return how many, and those that fail."""
    cases, failures, end = 0, [], time.monotonic() + seconds
    for number in range(first, first + most):
        if time.monotonic() > end:
            break
        found = exact_case(number)
        if found is None:
            continue
        name, leak, truth = found
        cases += 1
        if not Decimal(leak.lower) - DUST <= truth <= Decimal(leak.upper) + DUST:
            failures.append(f"{name}: [{leak.lower!r}, {leak.upper!r}], exactly {truth}")
    return cases, failures


def run_exchanges(seconds: float, most: int) -> Tally:
    """Compare the exchange with linear programs until the time or the cases run out."""
    tally, end = Tally(), time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        try:
            name, leak, truth, programs = exchange_case(number)
        except FAULTS as error:
            tally.failures.append(f"exchange {number}: {type(error).__name__}: {error}")
            continue
        except UndertowError as error:
            if "linear program was" not in str(error):
                raise
            tally.skipped += 1  # the solver fell short of the oracle's precision
            continue
        tally.programs += programs
        tally.add(name, leak, truth, PROGRAM, exact=True)
    return tally


@dataclass
class Draws:
    """Draws at one scale: how many, and how far from their law."""

    scale: float
    size: int
    distance: float
    p_value: float
    sigmas: float

    @property
    def fits(self) -> bool:
        """Whether the law is accepted: distance at 1e-7, shape at 1e-9, mean within 6 sigma."""
        near = self.distance <= limit(self.size, 1e-7)
        return near and self.p_value >= SHAPE and abs(self.sigmas) <= 6


def judge_counts(counts: Any, reach: int, total: float, size: int, scale: float) -> Draws:
    """Oracle binned draws (-reach .. reach, both tails cut) and their summed absolute values."""
    cdf = [laplace_cdf(z, scale) for z in range(-reach, reach)]
    below = np.array([0.0, *cdf, 1.0])
    gaps = np.abs(np.cumsum(counts) / size - below[1:])
    width = max(1, int(scale / 20))
    grouped = np.add.reduceat(counts, np.arange(0, len(counts), width))
    law = np.add.reduceat(np.diff(below), np.arange(0, len(counts), width))
    mean = 1 / math.sinh(1 / scale)
    ratio = math.exp(-1 / scale)
    square = 2 * ratio / (1 - ratio) ** 2
    sigma = math.sqrt((square - mean**2) / size)
    p_value = chi_square(grouped, law)
    return Draws(scale, size, float(gaps.max()), p_value, (total / size - mean) / sigma)


def run_draws(seconds: float, most: int, factor: float = 1.0) -> list[Draws]:
    """Draw noise of `factor` times each scale, and test it against the scale itself."""
    found = []
    for scale in SCALES:
        end = time.monotonic() + seconds / len(SCALES)
        reach = math.ceil(45 * scale) + 5
        counts, total, size = np.zeros(2 * reach + 1, dtype=np.int64), 0.0, 0
        while size < most // len(SCALES) and (size == 0 or time.monotonic() < end):
            noise = np.array(discrete_laplace(factor * scale, 25_000))
            counts += np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(counts))
            total += float(np.abs(noise).sum())
            size += len(noise)
        found.append(judge_counts(counts, reach, total, size, scale))
    return found
