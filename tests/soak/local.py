"""Random flips, erasures and XOR noise on random chains, and plans for them, on trial.

Every case is determined by its number, so a failure is repeated with `local_case(number)`,
`local_exact_case(number)` or `local_plan_case(number)`. Leakages are compared with enumeration (the
first in long doubles, the second in fractions, where no rounding excuses an end on the wrong side).
Plans must leak no more than they guarantee, and no search may find fewer flips or more shown
records by more than SEARCH.
"""

import math
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import undertow as ut
from tests.contracts.chains import Example, adversary, example
from tests.contracts.local_search import best_flips, best_redaction
from tests.oracles import series as oracle
from tests.oracles.exact import logarithm as exact_log
from tests.soak.plans import Claim, Trials
from tests.soak.work import DUST, FAULTS, NAMES, ROUNDING, Tally
from undertow.certificate import Leakage
from undertow.errors import UndertowError

SIZES = [(2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7), (3, 2), (3, 3), (3, 4), (3, 5)]
SEARCH = 1e-6  # how much better than an optimal plan the oracle's search may be
FAIR = 1e-13  # lower ends may exceed the fractions by this, relative: they are not rounded down
GRAIN = Fraction(1, 2**53)
METHODS = ("best", "optimal", "mq", "mq-printed", "3r-relaxed", "3r-constant", "3r-individual")
SEARCHED = ("stationary", "sticky", "negative", "wavering")  # families without zeros


def _chain(rng: np.random.Generator, number: int, sizes: list[tuple[int, int]]) -> Example:
    """Return a chain of the next family, at times with probabilities down to about 1e-13."""
    k, n = sizes[rng.integers(len(sizes))]
    chain = example(NAMES[number % len(NAMES)], k, n, seed=int(rng.integers(2**31)))
    power = int(rng.choice([1, 1, 1, 2, 6]))
    rows = chain.transition**power
    rows /= rows.sum(axis=-1, keepdims=True)
    return Example(chain.name, rows, chain.start, chain.length)


def _channel(rng: np.random.Generator, size: int) -> Any:
    """Return flips of any kind: k-ary, one-sided, with more or fewer outputs, with zeros."""
    columns = int(rng.integers(1, 5))
    matrix = rng.dirichlet(np.full(columns, 0.6), size=size).clip(10.0 ** -rng.integers(2, 9))
    if rng.random() < 0.3:
        gone = rng.random(matrix.shape) < 0.3
        gone[np.arange(size), rng.integers(columns, size=size)] = False
        matrix[gone] = 0.0
    if rng.random() < 0.3:
        return ut.RandomizedResponse.symmetric(size, rng.uniform(0.001, 1 - 1 / size))
    return ut.RandomizedResponse(matrix / matrix.sum(axis=1, keepdims=True))


def _erasures(rng: np.random.Generator, size: int, n: int) -> Any:
    """Return erasures of any kind: never, always, seldom, around one or two protected records."""
    table = rng.random((n, size))
    kind = rng.integers(6, size=table.shape)
    table[kind == 0], table[kind == 1] = 0.0, 1.0
    table[kind == 2] *= 1e-7
    protect = [int(record) for record in rng.permutation(n)[: rng.integers(1, 3)]]
    table[protect] = 1.0
    return ut.Redaction(table, protect=protect)


def _question(number: int, stream: int, sizes: list[tuple[int, int]]) -> tuple[str, Any, Any, Any]:
    """Return the name of a random question, a mechanism, a chain and an adversary."""
    rng = np.random.default_rng([stream, number])
    chain = _chain(rng, number, sizes)
    kind = int(rng.integers(5 if chain.size == 2 else 4))
    if kind == 4:
        mechanism: Any = ut.XorNoise(*rng.uniform(0.01, 0.99, 2))
    else:
        mechanism = (_channel, _erasures)[kind % 2](
            rng, chain.size, *([chain.length] if kind % 2 else [])
        )
    against: Any = ("any", "any", "ignorant", "informed", "one")[rng.integers(5)]
    if against == "one":
        against = ut.Adversary(*adversary(chain, int(rng.integers(2**31))))
        if isinstance(mechanism, ut.Redaction):
            target = mechanism.protect[0]
            against = ut.Adversary(target, [r for r in against.known if r != target])
    name = f"local {number}: {chain}, {type(mechanism).__name__}, {against}"
    return name, mechanism, chain.model(), against


def local_case(number: int) -> tuple[str, Leakage, float, bool]:
    """Return the name of a random case, its certified leakage, the enumerated one, if closed."""
    name, mechanism, chain, against = _question(number, 5, SIZES)
    leak = ut.leakage(mechanism, chain, against)
    truth = oracle.truth(mechanism, chain, against)
    if leak.witness is not None:
        reached = oracle.replay(leak.witness, mechanism, chain)
        if reached < leak.lower - ROUNDING * max(1.0, truth):
            raise ArithmeticError(f"the witness attains {reached!r} only, not {leak.lower!r}")
    return name, leak, truth, leak.method == "exact"


def local_exact_case(number: int) -> tuple[str, Leakage, Decimal]:
    """Return the same with the leakage in 50 digits, for shorter series."""
    name, mechanism, chain, against = _question(number, 6, [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3)])
    truth = exact_log(oracle.exact_ratio(mechanism, chain, against))
    return name, ut.leakage(mechanism, chain, against), truth


def local_plan_case(number: int) -> list[Claim] | None:
    """Return what a random plan claims and what the oracles found; None if it was refused."""
    rng = np.random.default_rng([7, number])
    searched = rng.random() < 0.25
    if searched:
        family = SEARCHED[rng.integers(len(SEARCHED))]
        chain = example(family, 2, int(rng.integers(2, 5)), seed=int(rng.integers(2**31)))
    else:
        chain = _chain(rng, number, [(2, 3), (2, 5), (2, 6), (3, 3), (3, 4)])
    n, model = chain.length, chain.model()
    calibrate: Any = ut.calibrate
    epsilon = float(np.exp(rng.uniform(math.log(0.1), math.log(6.0))))
    against: Any = ("any", "ignorant")[rng.integers(2)]
    flips = bool(rng.random() < 0.5)
    target = int(rng.integers(n))
    method = "best" if flips else METHODS[rng.integers(len(METHODS))]
    query: Any = ut.Series() if flips else ut.Redacted(target)
    name = f"local plan {number}: {chain}, {query}, {epsilon:.4g}, {against}, {method}"
    try:
        plan = calibrate(query, model, epsilon, against, method=method)
    except UndertowError:
        if method == "best":
            raise
        return None  # a method that does not apply says so
    truth = oracle.truth(plan.mechanism, model, against)
    table = plan.mechanism.matrix if flips else plan.mechanism.probabilities
    off = sum(Fraction(float(entry)) % GRAIN != 0 for entry in np.ravel(table))
    claims = [
        Claim(f"{name}: promise", epsilon, plan.leakage.upper),
        Claim(f"{name}: leakage", plan.leakage.upper, truth, ROUNDING),
        Claim(f"{name}: entries that random bits miss", 0.0, float(off)),
    ]
    if not flips:
        hidden = float((1 - plan.mechanism.probabilities[target]).max())
        claims.append(Claim(f"{name}: protected record shown", 0.0, hidden))
    if searched and flips:
        least = best_flips(chain.transition, n, epsilon, against)
        claims.append(Claim(f"{name}: flips", least + SEARCH, plan.expected_flips))
    elif searched and method in ("best", "optimal"):
        most, _ = best_redaction(chain.transition, n, target, epsilon, against)
        claims.append(Claim(f"{name}: shown", plan.utility + SEARCH, most))
    return claims


def run_local(seconds: float, most: int) -> Tally:
    """Compare flips and erasures with enumeration until the time or the cases run out."""
    tally, end = Tally(), time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        try:
            name, leak, truth, exact = local_case(number)
        except (*FAULTS, AssertionError, UndertowError) as error:
            tally.failures.append(f"local {number}: {type(error).__name__}: {error}")
            continue
        if math.isinf(truth) or math.isinf(leak.upper):
            tally.cases += 1
            if not leak.lower <= truth <= leak.upper:
                tally.failures.append(f"{name}: [{leak.lower}, {leak.upper}], found {truth}")
            continue
        tally.add(name, leak, truth, 0.0, exact)
    return tally


def run_local_exact(seconds: float, first: int, most: int) -> tuple[int, list[str]]:
    """Compare with fractions; return how many cases, and those with an end on the wrong side."""
    cases, failures, end = 0, [], time.monotonic() + seconds
    for number in range(first, first + most):
        if time.monotonic() > end:
            break
        name, leak, truth = local_exact_case(number)
        cases += 1
        fair = Decimal(FAIR) * max(Decimal(1), truth) if truth.is_finite() else Decimal(0)
        if not (truth <= Decimal(leak.upper) + DUST and Decimal(leak.lower) - fair <= truth):
            failures.append(f"{name}: [{leak.lower!r}, {leak.upper!r}], exactly {truth}")
    return cases, failures


def run_local_plans(seconds: float, most: int) -> Trials:
    """Oracle plans of flips and erasures until the time or the cases run out."""
    trials, end = Trials(), time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        try:
            claims = local_plan_case(number)
        except (*FAULTS, UndertowError) as error:
            trials.failures.append(f"local plan {number}: {type(error).__name__}: {error}")
            continue
        trials.plans += claims is not None
        trials.refused += claims is None
        trials.add(claims or [])
    return trials
