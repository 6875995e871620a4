"""Random plans of the certified methods, Wasserstein distances and boxes of chains on trial.

Every case is determined by its number, so a failure is repeated with `plan_case(number)`,
`distance_case(number)` or `box_case(number)`. Each returns claims: what was certified, and what a
oracle found on the same model, which must not be more.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import undertow as ut
from tests.contracts.chains import Example, adversary, example
from tests.contracts.method_plans import secret_of
from tests.oracles import chains as oracles
from tests.oracles.enumeration import ordered
from tests.soak.work import FAULTS, NAMES, ROUNDING
from undertow.bounds.channels import wasserstein
from undertow.bounds.channels.quilts import chain_pairs
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.errors import NothingToProtect, NotSupported, UndertowError
from undertow.methods import METHODS
from undertow.models.classes import ChainBox

TABLE = 4096  # most series that are enumerated, and most entries of a histogram's table over 16
ATTACKS = 10  # random attackers of each plan
SLOW = 0.75  # second eigenvalue above which series of any length take minutes
# noise with a scale; tables of noise are enumerated in tests/planning/test_optimal.py
CERTIFIED = [
    method for method in METHODS["answer"].values() if method.certified and not method.tabulated
]


@dataclass(frozen=True)
class Claim:
    """An upper end, and what an oracle found beneath it, up to the rounding of the oracle."""

    name: str
    upper: float
    found: float
    rounding: float = 0.0

    @property
    def excess(self) -> float:
        """By how much the claim is exceeded, relative to max(1, claim)."""
        if math.isinf(self.upper):
            return -math.inf
        return (self.found - self.upper) / max(1.0, self.upper)


@dataclass
class Trials:
    """What a run of trials saw."""

    cases: int = 0
    plans: int = 0
    refused: int = 0
    claims: int = 0
    tight: int = 0
    excess: float = -math.inf
    failures: list[str] = field(default_factory=list)

    def add(self, claims: list[Claim]) -> None:
        """Oracle the claims of one case."""
        self.cases += 1
        for claim in claims:
            self.claims += 1
            self.tight += abs(claim.excess) <= 1e-6
            self.excess = max(self.excess, claim.excess)
            if not claim.excess <= claim.rounding:  # nan fails
                self.failures.append(f"{claim.name}: {claim.upper!r}, found {claim.found!r}")


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A question to all methods: chains, what is asked, who attacks, what is secret."""

    name: str
    chains: list[Example]
    query: Any
    epsilon: float
    who: Any  # as the oracles name it
    pairs: list[tuple[int, int]] | None
    protect: list[int] | None

    @property
    def against(self) -> Any:
        return self.who if isinstance(self.who, str) else ut.Adversary(*self.who)

    @property
    def model(self) -> Any:
        chains = [chain.model() for chain in self.chains]
        return chains[0] if len(chains) == 1 else ut.ModelSet(chains)


def task(number: int) -> Task:
    """Return a random question; short series are sharpened, down to probabilities of 1e-10."""
    rng = np.random.default_rng([2, number])
    k = int(rng.integers(2, 5))
    n = int(rng.integers(2, 7) if rng.random() < 0.5 else rng.integers(7, 41))
    chain = example(NAMES[number % len(NAMES)], k, n, seed=int(rng.integers(2**31)))
    if n <= 6 and rng.random() < 0.3:
        rows = chain.transition**5
        rows = rows / rows.sum(axis=-1, keepdims=True)
        chain = Example(chain.name, rows, chain.start, n)
    who: Any = ("any", "any", "ignorant", "ignorant", "informed", "one")[rng.integers(6)]
    if who == "one":
        who = adversary(chain, int(rng.integers(2**31)))
    query: Any = ut.Count([int(s) for s in rng.permutation(k)[: rng.integers(1, k)]])
    kind = rng.random()
    if kind < 0.15 and k**n * (n + 1) ** k <= 16 * TABLE:
        query = ut.Histogram()
    elif kind < 0.3 and k**n <= 256:
        query = ut.Sum(0, k - 1)
    pairs: list[tuple[int, int]] | None = None
    protect: list[int] | None = None
    if rng.random() < 0.3:
        drawn = [rng.permutation(k)[:2].tolist() for _ in range(2)]
        pairs = [(x, y) for x, y in drawn]
    if rng.random() < 0.3:
        protect = [int(r) for r in rng.permutation(n)[: rng.integers(1, min(n, 4) + 1)]]
    epsilon = float(np.exp(rng.uniform(math.log(0.05), math.log(12.0))))
    chains = [chain]
    if rng.random() < 0.15:
        chains.append(example(NAMES[rng.integers(len(NAMES))], k, n, seed=number))
    shown = " or ".join(map(str, chains))
    name = f"plan {number}: {shown}, {query}, {who}, epsilon {epsilon:.4g}, {pairs}, {protect}"
    return Task(name, chains, query, epsilon, who, pairs, protect)


def plan_case(number: int) -> tuple[list[Claim], int, int]:
    """Return the claims of all methods on a random question, the plans made and those refused."""
    asked = task(number)
    model = asked.model
    claims: list[Claim] = []
    plans = refused = 0
    for method in CERTIFIED:
        if not method.guards(asked.against):
            continue
        name = f"{asked.name}, {method.name}"
        try:
            plan = ut.calibrate(
                asked.query, model, asked.epsilon, asked.against, method=method.name,
                secret=secret_of(asked.pairs, asked.protect),
            )  # fmt: skip
        except NothingToProtect:
            claims += judged(asked, f"{name}, nothing to protect", 1.0, 0.0, number)
            continue
        except NotSupported:
            refused += 1
            continue
        plans += 1
        upper = plan.leakage.upper
        claims.append(Claim(f"{name}, promise", asked.epsilon, upper))
        claims += judged(asked, name, plan.mechanism.scale, upper, number)
        if asked.pairs is None and asked.protect is None:
            exact = ut.leakage(plan.mechanism, model, asked.against)
            claims.append(Claim(f"{name}, engine", upper, exact.lower))
            if method.name == "exact":
                claims.append(Claim(f"{name}, lower end", exact.upper, plan.leakage.lower))
    return claims, plans, refused


def judged(asked: Task, name: str, scale: float, upper: float, number: int) -> list[Claim]:
    """Return the claim that noise of this scale leaks at most ``upper``, before every check."""
    claims = []
    secrets: dict[str, Any] = {"pairs": asked.pairs, "protect": asked.protect}
    rng = np.random.default_rng([3, number])
    for chain in asked.chains:
        size, n, model = chain.size, chain.length, chain.model()
        if size**n <= TABLE and isinstance(asked.who, str):
            answer = oracles.counted(getattr(asked.query, "states", ()))
            if isinstance(asked.query, ut.Histogram):
                answer = oracles.binned(size)
            elif isinstance(asked.query, ut.Sum):
                answer = total
            noisy = oracles.noisy_answer(size, n, scale, answer)
            found = oracles.leakage(chain.joint, noisy, asked.who, **secrets)
            claims.append(Claim(f"{name}, enumeration of {chain}", upper, found, ROUNDING))
        if isinstance(asked.query, ut.Count):
            for attempt in range(ATTACKS):
                target, known = attacker(rng, model, asked, typical=attempt % 2 == 0)
                found = attack(model, asked.query.states, scale, target, known, asked.pairs)
                words = f"{name}, {target} of {chain} given {known}"
                claims.append(Claim(words, upper, found, ROUNDING))
    return claims


def total(series: tuple[int, ...]) -> list[int]:
    """Return the sum of the states, which are named by numbers."""
    return [sum(series)]


def attacker(
    rng: np.random.Generator, model: ut.MarkovChain, asked: Task, *, typical: bool
) -> tuple[int, dict[int, int]]:
    """Return a target and what is known, of those that were asked about."""
    n = model.length or 0
    series: Any = model.simulate(seed=int(rng.integers(2**31)))
    if not typical:
        series = rng.integers(model.size, size=n).tolist()
    if not isinstance(asked.who, str):
        return asked.who[0], {record: series[record] for record in asked.who[1]}
    target = int(rng.choice(n if asked.protect is None else asked.protect))
    others = [record for record in range(n) if record != target]
    probability = {"any": rng.choice([0.05, 0.2, 0.6]), "ignorant": 0.0, "informed": 1.0}[asked.who]
    return target, {record: series[record] for record in others if rng.random() < probability}


def attack(
    model: ut.MarkovChain,
    counted: Any,
    scale: float,
    target: int,
    known: dict[int, int],
    pairs: Any,
) -> float:
    """Return the largest ln Pr[s | known, x] / Pr[s | known, x'] of a noisy count, step by step.

    Sums of products of non-negative numbers; 0 where the known values rule all but one x out.
    """
    n, k = model.length or 0, model.size
    marked = np.isin(np.arange(k), counted)
    answers = np.arange(n + 1)
    noise = np.exp(-np.abs(answers[:, None] - answers) / scale)
    likelihoods = {}
    for x in range(k):
        law = np.zeros((k, n + 2))  # of the state and of the count so far
        for record in range(n):
            arrived = model.step(record - 1).T @ law if record else law
            if not record:
                arrived[:, 0] = model.initial
            allowed = {**known, target: x}.get(record)
            if allowed is not None:
                arrived[np.arange(k) != allowed] = 0.0
            law = np.where(marked[:, None], np.roll(arrived, 1, axis=1), arrived)
        counts = law.sum(axis=0)[:-1]
        if counts.sum() > 0:
            likelihoods[x] = noise @ (counts / counts.sum())
    wanted = ordered(k, pairs)
    ratios = [
        float(np.log(likelihoods[x] / likelihoods[y]).max())
        for x, y in wanted
        if x in likelihoods and y in likelihoods
    ]
    return max([0.0, *ratios])


# --- distances ------------------------------------------------------------------------------------


def distance_case(number: int) -> list[Claim]:
    """Return what cutting long series proves about the distance of a count, before two oracles.

    On 100 to 128 records every window is compared outright; moments hold for any length.
    """
    rng = np.random.default_rng([4, number])
    k = int(rng.choice([2, 2, 2, 3]))
    rows = rng.dirichlet(np.full(k, 0.7), size=k).clip(0.01)
    rows += rng.choice([0.0, 1.0, 4.0]) * np.eye(k) + rng.choice([0.0, 0.0, 2.0]) * (1 - np.eye(k))
    n = int(rng.integers(100, 129))
    chain = ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=n)
    marks = np.arange(k) < rng.integers(1, k)
    some = [(0, k - 1)] if rng.random() < 0.3 else None
    records = sorted(rng.choice(n, 3, replace=False).tolist()) if rng.random() < 0.3 else None
    pairs = chain_pairs(chain, some)
    name = f"distance {number}: {chain.transition.tolist()}, {n}, {some}, {records}"
    outright = wasserstein._direct(chain, marks, pairs, records)
    cut = wasserstein._long(chain, marks, pairs, records, 0)  # every depth that fits
    moments = wasserstein._attained(chain, marks, pairs, records)
    claims = [
        Claim(f"{name}, cut", cut, outright.lower),
        Claim(f"{name}, moments", outright.upper, moments),
    ]
    if np.sort(np.abs(np.linalg.eigvals(chain.transition)))[-2] > SLOW:
        return claims
    length = int(rng.integers(200, 2000))
    try:
        endless = wasserstein.count_distance(ut.MarkovChain(chain.transition), marks, some)
        long = ut.MarkovChain(chain.transition, length=length)
        found = wasserstein.count_distance(long, marks, some)
    except NotSupported:
        return claims
    claims += [
        Claim(f"{name}, any length", endless.upper, outright.lower),
        Claim(f"{name}, ends", found.upper, found.lower),
        Claim(f"{name}, ends of any length", endless.upper, endless.lower),
        Claim(f"{name}, longer", endless.upper, found.lower),
    ]
    for tilt in (-3.0, -0.3, 0.02, 0.3, 3.0):
        record = int(rng.integers(length))
        least = moment(long, marks, pairs, record, tilt)
        claims.append(Claim(f"{name}, {length}, {record}, tilt {tilt}", found.upper, least, 1e-8))
    return claims


def moment(chain: ut.MarkovChain, marks: Any, pairs: Any, record: int, tilt: float) -> float:
    """Return max |ln E[e^{tN} | x] - ln E[e^{tN} | x']| / |t|, a bound from below, step by step."""
    sides = []
    for kernel, steps in (
        (chain.reverse().transition, record),
        (chain.transition, (chain.length or 0) - 1 - record),
    ):
        ahead = np.ones(chain.size)
        for _ in range(steps):
            ahead = kernel @ (np.exp(tilt * marks) * ahead)
            ahead = ahead / ahead.max()
        sides.append(np.log(ahead))
    whole = sides[0] + sides[1] + tilt * marks
    return float(np.abs(whole[pairs[:, 0]] - whole[pairs[:, 1]]).max()) / abs(tilt)


# --- boxes ----------------------------------------------------------------------------------------


def box_case(number: int) -> list[Claim]:
    """Return the ceiling over a random box, and what chains inside leak: corners, edges, others."""
    rng = np.random.default_rng([5, number])
    middle, half = rng.random(2), np.exp(rng.uniform(math.log(1e-4), 0.0, 2)) / 2
    if rng.random() < 0.3:  # sticky, or nearly alternating
        middle = rng.choice([0.02, 0.98], 2)
        half = half / 25
    low, high = np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
    if rng.random() < 0.7:
        low, high = low.clip(0.003, 0.997), high.clip(0.003, 0.997)
    length = (None, 2, 3, int(rng.integers(4, 80)))[rng.integers(4)]
    who: Any = ("any", "any", "ignorant", "one")[rng.integers(4)]
    if who == "one":
        order = rng.permutation(length or 12).tolist()
        who = ut.Adversary(order[0], order[1 : 1 + int(rng.integers(len(order)))])
    epsilon = float(np.exp(rng.uniform(math.log(0.02), math.log(6.0))))
    (q, r), (top_q, top_r) = low.tolist(), high.tolist()
    box = ChainBox(
        [[1 - top_q, q], [r, 1 - top_r]], [[1 - q, top_q], [top_r, 1 - r]], length=length
    )
    whole = ut.leakage(ut.PureDP(epsilon), box, who)
    name = f"box {number}: {low.tolist()}, {high.tolist()}, {length}, {who}, epsilon {epsilon!r}"
    claims = [Claim(f"{name}, ends", whole.upper, whole.lower)]
    for share in (*rng.integers(2, size=(2, 2)), *rng.uniform(-0.5, 1.5, (4, 2)).clip(0, 1)):
        rates = np.clip(low + share * (high - low), low, high).tolist()
        rows = [[1 - rates[0], rates[0]], [rates[1], 1 - rates[1]]]
        try:
            inside = ut.MarkovChain(rows, length=length)
        except UndertowError:  # two states that are never left: no stationary start
            continue
        found = exchange_leakage(epsilon, inside, who)
        claims.append(Claim(f"{name}, {rates}", whole.upper, found.lower, 1e-14))
    return claims


# --- runs -----------------------------------------------------------------------------------------


def run_plans(seconds: float, most: int) -> Trials:
    """Oracle random plans until the time or the cases run out."""
    trials = Trials()

    def case(number: int) -> list[Claim]:
        claims, plans, refused = plan_case(number)
        trials.plans += plans
        trials.refused += refused
        return claims

    return _run(trials, "plan", case, seconds, most)


def run_distances(seconds: float, most: int) -> Trials:
    """Oracle random distances of counts until the time or the cases run out."""
    return _run(Trials(), "distance", distance_case, seconds, most)


def run_boxes(seconds: float, most: int) -> Trials:
    """Oracle random boxes until the time or the cases run out."""
    return _run(Trials(), "box", box_case, seconds, most)


def _run(
    trials: Trials, kind: str, case: Callable[[int], list[Claim]], seconds: float, most: int
) -> Trials:
    end = time.monotonic() + seconds
    for number in _until(end, most):
        try:
            trials.add(case(number))
        except (*FAULTS, UndertowError) as error:
            trials.failures.append(f"{kind} {number}: {type(error).__name__}: {error}")
    return trials


def _until(end: float, most: int) -> Iterator[int]:
    for number in range(most):
        if time.monotonic() > end:
            return
        yield number
