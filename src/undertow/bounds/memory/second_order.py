"""What mechanisms leak on chains of order two, where the next record depends on the last two.

Knowing one record does not separate the records before it from those after it, so the methods for
chains of order one do not apply. `second_order_leakage` takes the sharpest of

* *attractive* laws of two states: the worst likelihood is known, and a bracket of ratio 1.001 holds
  for all algorithms of a level, counts and flips (`undertow.bounds.memory.two_states`); the
  same where relabelling every second record makes the law attractive;
* other laws of two states: flips by every word of outputs;
* everything else: a bound on two records at a time (`undertow.bounds.memory.second_order`), which
  may be twice the truth, above an attack that is carried out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import combinations, permutations

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.channels.flips import chain_leakage as chain_channel
from undertow.bounds.levels.chains import leakage as chain_leakage
from undertow.bounds.memory.two_states import (
    QUICK,
    THOROUGH,
    AttainedBracket,
    Law,
    MoveBounds,
    law_of,
    worst_case,
)
from undertow.bounds.one_adversary import ONE_ADVERSARY
from undertow.bounds.protocol import AnswerProver, ChannelProver, Prover, WindowProver
from undertow.certificate import Leakage, Witness
from undertow.errors import EffortSpent, InvalidInput, NotSupported
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    MetricDP,
    PureDP,
    RandomizedResponse,
    Redaction,
    XorNoise,
)
from undertow.models.chains import MarkovChain
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array, check_count, down, log_error, log_ratio, up
from undertow.progress import SPENT, spend
from undertow.queries import State

__all__ = [
    "PROVERS",
    "REACH",
    "AttackScenario",
    "FoundAttack",
    "Own",
    "PairSide",
    "Symbol",
    "joined_upper",
    "leakage",
    "local",
    "search_attack",
    "second_order_leakage",
    "spread_upper",
]


WIDTH = 48
"""Attempts that are kept on a side at each distance (cost)."""

ROUNDS = 3
"""How often both sides are searched (cost); each round uses the other side's best."""

_TRY, _GROWTH = 40.0, 6.0
"""Work of a loss, and of an entry of a product, in multiplications."""

RIVALS = 6
"""Attempts of the other side against which a side is scored (cost)."""


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """What is looked at in one record: a weight for each state, with outputs and without.

    A known value v weighs 1 at v and 0 elsewhere in both; an output weighs Pr[output | state] and
    without outputs 1 throughout.
    """

    seen: Array
    plain: Array
    known: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AttackScenario:
    """A chain and what can be seen at each signed distance from the target (0 is its own record).

    ``look`` returns None beyond the series. ``rest(side, distance)`` is the message, shape (k, k),
    of all records beyond a distance where these are part of the answer; None where they are not.
    """

    chain: SecondOrderChain
    look: Callable[[int], list[Symbol] | None]
    rest: Callable[[int, int], Array | None] = lambda side, distance: None

    def symbols(self, distance: int) -> list[Symbol]:
        """Return what can be seen at a distance; beyond the series, nothing."""
        ones = np.ones(self.chain.size)
        return self.look(distance) or [Symbol(ones, ones)]


Pair = tuple[int, int] | None
"""The two values of the target that are to be told apart; None for any two."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundAttack:
    """An attack: what is seen at each distance, the two values, and the leakage that it attains."""

    value: float
    first: int
    other: int
    seen: tuple[tuple[int, Symbol], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _PairTries:
    """Attempts on one side: products of matrices (b, 2, k^2, k, k), messages, and symbols.

    The axis of two is with outputs and without. Messages (b, 2, k, k) are over the inner pair.
    """

    products: Array
    messages: Array
    symbols: list[tuple[Symbol, ...]]

    @classmethod
    def start(cls, scenario: AttackScenario, side: int) -> "_PairTries":
        """Return the one attempt that looks at nothing on this side."""
        size = scenario.chain.size
        product = np.broadcast_to(np.eye(size**2), (1, 2, size**2, size**2))
        product = product.reshape(1, 2, size**2, size, size)
        return cls(product, _messages(product, scenario.rest(side, 1 if side < 0 else 0)), [()])

    def chosen(self, places: Sequence[int]) -> "_PairTries":
        """Return some of the attempts."""
        picked = list(places)
        return _PairTries(
            self.products[picked], self.messages[picked], [self.symbols[p] for p in picked]
        )

    def extended(self, step: Array, symbols: list[Symbol], rest: Array | None) -> "_PairTries":
        """Return every attempt with every symbol for one more record outwards."""
        # (symbols, 2, k)
        weights = np.stack([np.stack([symbol.seen, symbol.plain]) for symbol in symbols])
        size = len(step)
        spend(len(self.products) * len(symbols) * 2 * size**4 * _GROWTH)
        ahead = np.einsum("bvpxy,xyc->bvpyc", self.products, step)  # (b, 2, k^2, y, c)
        products = ahead[:, None] * weights[None, :, :, None, None, :]  # (b, symbols, 2, k^2, y, c)
        products = products.reshape(-1, *products.shape[2:])
        top = products.max(axis=(2, 3, 4), keepdims=True)  # (b symbols, 2, 1, 1, 1)
        products = products / np.where(top > 0, top, 1.0)
        listed = [(*before, symbol) for before in self.symbols for symbol in symbols]
        return _PairTries(products, _messages(products, rest), listed)


def _messages(products: Array, rest: Array | None) -> Array:
    size = products.shape[-1]
    found = products.sum(axis=(3, 4))  # (b, 2, k^2)
    if rest is not None:
        found[:, 0] = (products[:, 0] * rest).sum(axis=(2, 3))
    return np.asarray(found.reshape(-1, 2, size, size))


def search_attack(scenario: AttackScenario, reach: int) -> FoundAttack | None:
    """Return the best attack found on a target, None where nothing can be told apart.

    Looks up to ``reach`` records away from the target; a shorter reach is tried too. Each pair of
    values is searched for by itself, up to three states. Cost O(reach * width * symbols^3 * k^6).
    """
    size = scenario.chain.size
    pairs: list[Pair] = [None] if size > 3 else list(permutations(range(size), 2))
    found = [
        _search(scenario, distance, pair)
        for pair in pairs
        for distance in sorted({max(reach // 2, 2), reach})
    ]
    return max(filter(None, found), key=lambda attack: attack.value, default=None)


def _search(scenario: AttackScenario, reach: int, pair: Pair) -> FoundAttack | None:
    sides = {side: _PairTries.start(scenario, side) for side in (-1, 1)}
    steps = {1: scenario.chain.transition, -1: scenario.chain.reverse().transition}
    best: FoundAttack | None = None
    for _ in range(ROUNDS):
        before = -math.inf if best is None else best.value
        for side in (1, -1):
            sides[side] = _grow(scenario, steps[side], side, sides[-side], reach, pair)
            found = _best(scenario, sides[-1], sides[1], pair)
            if found is not None and (best is None or found.value > best.value):
                best = found
        if best is None or best.value <= before:
            break
    return best


def _grow(
    scenario: AttackScenario, step: Array, side: int, rivals: _PairTries, reach: int, pair: Pair
) -> _PairTries:
    """Return the best attempts of a side, of all lengths up to the reach, best first."""
    beam = _PairTries.start(scenario, side)
    kept = [beam]
    first = 2 if side < 0 else 1  # the left neighbour is summed over apart
    for distance in range(first, reach + 1):
        symbols = scenario.look(side * distance)
        if symbols is None:
            break
        further = beam.extended(step, symbols, scenario.rest(side, distance))
        scores = _scores(scenario, side, further, rivals, pair)
        order = np.argsort(-scores, kind="stable")[:WIDTH].tolist()
        beam = further.chosen(order)
        kept.append(beam.chosen(range(min(RIVALS, len(order)))))
    every = _PairTries(
        np.concatenate([tries.products for tries in kept]),
        np.concatenate([tries.messages for tries in kept]),
        [symbols for tries in kept for symbols in tries.symbols],
    )
    scores = _scores(scenario, side, every, rivals, pair)
    return every.chosen(np.argsort(-scores, kind="stable")[:RIVALS].tolist())


def _scores(
    scenario: AttackScenario, side: int, attempts: _PairTries, rivals: _PairTries, pair: Pair
) -> Array:
    """Return what each attempt attains with the best of the other side."""
    lefts, rights = (attempts, rivals) if side < 0 else (rivals, attempts)
    losses = _losses(scenario, lefts, rights, pair)
    return np.asarray(losses.max(axis=(1, 2, 3, 4, 5) if side < 0 else (0, 2, 3, 4, 5)))


def _losses(scenario: AttackScenario, lefts: _PairTries, rights: _PairTries, pair: Pair) -> Array:
    """Return the leakage for (left, right, left neighbour, own output, x, x'); -inf: impossible."""
    chain = scenario.chain
    left, right = lefts.messages, rights.messages  # (l, 2, x, a), (r, 2, a, x)
    tries = len(left) * len(right) * len(scenario.symbols(-1))
    spend(_TRY * tries * len(scenario.symbols(0)) * chain.size**2)
    near = np.stack([np.stack([s.seen, s.plain]) for s in scenario.symbols(-1)])  # (n, 2, a)
    weighted = chain.pair_law * near[..., None]  # (n, 2, a, x)
    reached = weighted * left.transpose(0, 1, 3, 2)[:, None]  # (l, n, 2, a, x)
    total = (reached[:, None] * right[None, :, None]).sum(axis=4)  # (l, r, n, 2, x)
    own = np.stack([symbol.seen for symbol in scenario.symbols(0)])  # (o, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(total[..., 0, :]) - np.log(total[..., 1, :])  # (l, r, n, x)
        score = gain[:, :, :, None] + np.log(own)  # (l, r, n, o, x)
        loss = score[..., :, None] - score[..., None, :]  # (l, r, n, o, x, x')
    possible = total[..., 1, :] > 0  # (l, r, n, x)
    both = (possible[..., :, None] & possible[..., None, :])[:, :, :, None]
    if pair is not None:
        wanted = np.zeros((chain.size, chain.size), dtype=bool)
        wanted[pair] = True
        both = both & wanted
    return np.asarray(np.where(both & ~np.isnan(loss), loss, -math.inf))


def _best(
    scenario: AttackScenario, lefts: _PairTries, rights: _PairTries, pair: Pair
) -> FoundAttack | None:
    """Return the best combination of both sides, the left neighbour and the target's output."""
    losses = _losses(scenario, lefts, rights, pair)
    place = np.unravel_index(int(losses.argmax()), losses.shape)
    value = float(losses[place])
    if not value > 0:
        return None
    l, r, n, o, x, y = map(int, place)
    seen = [(-2 - d, symbol) for d, symbol in enumerate(lefts.symbols[l])]
    seen += [(1 + d, symbol) for d, symbol in enumerate(rights.symbols[r])]
    seen += [(-1, scenario.symbols(-1)[n])] if scenario.look(-1) is not None else []
    seen += [(0, scenario.symbols(0)[o])] if scenario.look(0) is not None else []
    return FoundAttack(value, x, y, tuple(sorted(seen, key=lambda pair: pair[0])))


ROUNDING = 1e-11
"""Relative and absolute padding of each step's result (upper side): a few dozen roundings of
logarithms, which are below a thousand, and of exponents, where the relative part helps."""

PADS = (1e-9, 1e-6, 1e-3)
"""How much is added to a limit before it is verified (upper side); the first that holds is used."""

MOST_STEPS = 20_000
"""Steps towards the limit (cost); past them the bound comes from above, where it always holds."""

CLOSE = 1e-12
"""Change of a step below which the limit counts as reached; the verification decides."""

Own = Callable[[int], Array]
"""The bound own(c, c') for the record at a distance from the target (1 is its neighbour)."""


def spread_upper(alpha: Array, beta: Array) -> Array:
    """Return J(alpha, beta) for alpha >= 0 (inf allowed), and 0 where beta <= 0; see above.

    >>> spread_upper(np.array([1.0, math.inf]), np.array([2.0, 2.0])).round(6)
    array([0.454673, 2.      ])
    """
    first, second = np.broadcast_arrays(alpha, np.maximum(beta, 0.0))
    wide = np.isinf(first)
    safe = np.where(wide, 0.0, first)
    plus, minus = (safe + second) / 4, (safe - second) / 4
    value = 2 * (np.logaddexp(plus, -plus) - np.logaddexp(minus, -minus))
    value = np.where(wide, second, np.minimum(value, np.minimum(safe, second)))
    return np.asarray(np.maximum(value, 0.0))


@dataclass(frozen=True, slots=True)
class PairSide:
    """One side of a target, read outwards; all transitions are positive."""

    transition: Array

    @property
    def log(self) -> Array:
        """The logarithm of the transitions."""
        return np.log(self.transition)

    def known_upper(self) -> Array:
        """Return how far records beyond can tell y from y' before the same c: (y, y', c)."""
        logs = self.log
        return np.asarray((logs[:, None] - logs[None]).max(axis=3))

    def one_record(self, inner: Array, own: Array) -> Array:
        """Return the bound from the records beyond the next one."""
        size, logs, known = len(own), self.log, self.known_upper()
        gain = logs[:, :, None, None] - logs[None, None]  # (x, y, x', y', c)
        high = gain + known[None, :, None]  # (x, y, x', y', c)
        low = gain - known.transpose(1, 0, 2)[None, :, None]
        beta = high[..., :, None] - low[..., None, :]  # (x, y, x', y', c, c')
        beta[..., np.arange(size), np.arange(size)] = 0.0  # c = c' moves nothing
        before = np.einsum("ycxc->yxc", inner).max(axis=2)[None, :, None]  # (1, y, 1, y')
        same = own + np.einsum("ycyd->ycd", inner)  # (y, c, c')
        by_first = spread_upper(same[None, :, None, None], beta).max(axis=(4, 5))  # (x, y, x', y')
        by_second = spread_upper(same[None, None, None], beta).max(axis=(4, 5))
        return self._padded(before + np.minimum(by_first, by_second))

    def two_records(self, beyond: Array, own: Array, next_own: Array) -> Array:
        """Return the bound from the records beyond the next two."""
        size = len(own)
        logs = (self.log[..., None] + self.log[None]).reshape(size**2, size**2)  # (x y, c d)
        moved = own[:, None, :, None] + next_own[None, :, None, :] + beyond
        moved = moved.reshape(size**2, size**2)  # (c d, c' d')
        result = np.empty((size**2, size**2))
        for row in range(size**2):
            gain = logs[row] - logs  # (other row, block)
            result[row] = spread_upper(moved, gain[:, :, None] - gain[:, None, :]).max(axis=(1, 2))
        return self._padded(result.reshape((size,) * 4))

    def step(self, inner: Array, beyond: Array, own: Array, next_own: Array) -> Array:
        """Return the smaller of both bounds, entry by entry."""
        return np.minimum(self.one_record(inner, own), self.two_records(beyond, own, next_own))

    def limit(self, own: Array) -> Array:
        """Return a bound for every number of records with the same ``own``."""
        bound = np.zeros((len(own),) * 4)
        if np.isfinite(own).all():
            for _ in range(MOST_STEPS):
                further = self.step(bound, bound, own, own)
                done = float(np.abs(further - bound).max()) <= CLOSE
                bound = further
                if done:
                    break
            for pad in PADS:
                padded = self._padded(bound, pad)
                if (self.step(padded, padded, own, own) <= padded).all():
                    return padded
        bound = np.full_like(bound, math.inf)
        for _ in range(200):
            bound = np.minimum(bound, self.step(bound, bound, own, own))
        return bound

    def recursion(self, own: Own, records: int, start: Array) -> list[Array]:
        """Return the bounds beyond distance 0, 1, .. ``records``; ``start`` holds beyond that."""
        bounds = [start, start]
        for distance in range(records, 0, -1):
            bounds.append(self.step(bounds[-1], bounds[-2], own(distance), own(distance + 1)))
        return bounds[:0:-1]

    @staticmethod
    def _padded(bound: Array, pad: float = ROUNDING) -> Array:
        """Return a little more, but nothing where a pair is compared with itself."""
        size = len(bound)
        flat = (bound * (1 + pad) + pad).reshape(size**2, size**2)
        np.fill_diagonal(flat, 0.0)
        return np.asarray(flat.reshape((size,) * 4))


def joined_upper(
    chain: SecondOrderChain, own: Own, left: Callable[[int], Array], right: Callable[[int], Array]
) -> Array:
    """Return the bound on the whole leakage about a target, shape (k, k): x against x'.

    ``own`` takes a signed distance, 0 for the target. ``left(d)`` bounds what the records beyond
    distance d on the left say about the pair at d and d - 1, ``right(d)`` alike. The best of five
    ways to join: at one neighbour, at a block of the target and a neighbour (left and right), or at
    two neighbours on each side at once.
    """
    back = chain.reverse()
    ways = [
        _by_neighbour(chain, back, own, left, right),
        _by_neighbour(back, chain, lambda d: own(-d), right, left),
        _by_block(own(0), own(1), left(0), right(1)),
        _by_block(own(0), own(-1), right(0), left(1)),
    ]
    if chain.size <= 4:
        ways.append(_by_four(chain, own, left(2), right(2)))
    best = np.minimum.reduce(ways)
    np.fill_diagonal(best, 0.0)
    return np.asarray(best * (1 + ROUNDING) + ROUNDING)


def _by_neighbour(
    chain: SecondOrderChain, back: SecondOrderChain, own: Own, left: Callable[[int], Array],
    right: Callable[[int], Array],
) -> Array:  # fmt: skip
    """Join at the left neighbour a: max_a [L + R] for x and x', then J over two values of a."""
    size, law = chain.size, np.log(chain.pair_law)  # (a, x)
    far, near = left(1), right(0)  # L(x, a; ...) beyond a; R(a, x; ...) beyond x
    ahead, behind = (PairSide(one.transition).known_upper() for one in (chain, back))  # (y, y', c)
    bound = np.zeros((size, size))
    for x, y in permutations(range(size), 2):
        first = max(far[x, a, y, a] + near[a, x, a, y] for a in range(size))
        beta = law[:, x] - law[:, y]
        beta = beta[:, None] - beta[None, :]  # (a, a')
        # records beyond x tell a from a', for x and for y; records beyond a tell x from y
        beta = beta + ahead[:, :, x] + ahead[:, :, y].T
        beta = beta + behind[x, y][:, None] + behind[y, x][None, :]
        np.fill_diagonal(beta, 0.0)
        second = min(
            float(spread_upper(own(-1) + far[s, :, s, :] + near[:, s, :, s], beta).max())
            for s in (x, y)
        )
        bound[x, y] = own(0)[x, y] + first + second
    return bound


def _by_block(target: Array, partner: Array, outer: Array, inner: Array) -> Array:
    """Join at the block of the target and a neighbour b: no more than its two values differ.

    ``outer(b, x; ..)`` bounds the side of the target, ``inner(x, b; ..)`` that of the neighbour.
    """
    total = target[:, None, :, None] + partner[None, :, None, :]  # (x, b, x', b')
    total = total + inner + outer.transpose(1, 0, 3, 2)
    return np.asarray(total.max(axis=(1, 3)))


def _by_four(chain: SecondOrderChain, own: Own, left: Array, right: Array) -> Array:
    """Join at the two neighbours on either side, (e, a) and (b, c), as one law."""
    size, step = chain.size, chain.transition
    law = np.einsum("ea,eax,axb,xbc->xeabc", chain.pair_law, step, step, step)  # (x, e, a, b, c)
    logs = np.log(law).reshape(size, size**4)  # (x, e a b c)
    # (e, a, e', a')
    near = own(-1)[None, :, None, :] + own(-2)[:, None, :, None] + left.transpose(1, 0, 3, 2)
    far = own(1)[:, None, :, None] + own(2)[None, :, None, :] + right  # (b, c, b', c')
    # (e, a, b, c, e', a', b', c')
    moved = near[:, :, None, None, :, :, None, None] + far[None, None, :, :, None, None]
    moved = moved.reshape(size**4, size**4)
    bound = np.zeros((size, size))
    for x, y in permutations(range(size), 2):
        gain = logs[x] - logs[y]
        wide = spread_upper(moved, gain[:, None] - gain[None, :])  # (e a b c, e' a' b' c')
        bound[x, y] = own(0)[x, y] + float(wide.max())
    return bound


REACH = 24
"""How far from the target the search for an attack looks (cost)."""

MOST_STATES = 6
"""States up to which the upper end is computed (cost k^8)."""

FAR = 24
"""Records beyond the touched ones that are walked one by one; past them the limit holds (cost)."""

WIDE = 1.1
"""Quotient of the ends of a bracket from which another bound is asked too (cost)."""

LOWER_ERROR = 1e-10
"""What is taken off a value found by the search (lower side): a few hundred roundings."""

ASSUMED = "the records follow the stated chain of order two, stationary"

_MOST_LEVEL = 700.0
"""Level whose exponential is a float: beyond, no attack is weighed, and the lower end is 0."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a mechanism shows: weights (records or 1, outputs, k), and how far one record moves it.

    ``tied`` outputs are the same in every record: far answers of a count look alike everywhere.
    """

    weights: Array
    own: Array
    names: tuple[State, ...]
    tied: bool = False


def second_order_leakage(
    mechanism: Levelled | MetricDP | LocalMechanism,
    chain: SecondOrderChain,
    against: Against = "any",
    reach: int = REACH,
) -> Leakage:
    """Return what a mechanism leaks on a chain of order two, between an attack and a bound.

    The lower end is attained by the witness. The upper end is proved for series of every length
    and for attackers who know any records. Both ends all but agree for two states where the law is
    attractive, and for flips; elsewhere the upper end may be twice the truth, and it is inf where a
    transition is impossible: the assumptions say which. Supports flips by `RandomizedResponse`,
    counts and histograms, `PureDP`, other queries by their DP level, and `Redaction` (about its
    protected records).

    Parameters
    ----------
    mechanism
        What is released.
    chain
        The truth.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` or an `Adversary`.
    reach
        How far from the target attacks are looked for; where less than usual, brackets are less
        narrow too.

    >>> from undertow import MarkovChain
    >>> chain = SecondOrderChain.of(MarkovChain([[.9, .1], [.1, .9]]))
    >>> leak = second_order_leakage(RandomizedResponse.binary(.3437, .3437), chain)
    >>> round(leak.lower, 6), round(leak.upper, 6)  # that of the first-order chain
    (3.999202, 3.999202)
    """
    against = check_against(against)
    check_count(reach, "reach", 2)
    if chain.size > MOST_STATES:
        raise NotSupported(
            f"chains of order two are treated up to {MOST_STATES} states, found {chain.size}; "
            "merge states"
        )
    if isinstance(mechanism, Redaction):
        if isinstance(against, Adversary):
            raise NotSupported(
                "of a redaction on a chain of order two ask against 'any', 'ignorant' or 'informed'"
            )
        return _redaction(mechanism, chain, against, reach)
    view = _view(mechanism, chain)
    if against == "informed":
        level = float(view.own.max())
        attained = level if (chain.transition > 0).all() and view.weights.size else 0.0
        logs = np.log(view.weights[view.weights > 0])
        slack = log_error(64, 1 + float(np.abs(logs).max(initial=0.0)))
        return _leakage(max(down(attained, 16) - slack, 0.0), level, against, None)
    found = _two_states(mechanism, chain, view, against, reach)
    if found is not None:
        return found
    if isinstance(against, Adversary):
        raise NotSupported(
            "what one adversary learns from a chain of order two has a closed form on attractive "
            "laws of two states; undertow.leakage bounds it on every law"
        )
    return _looser(chain, view, against, reach)


def _looser(chain: SecondOrderChain, view: "_View", against: Against, reach: int) -> Leakage:
    """Return the bound on two records at a time, above the best attack that a search finds."""
    best: tuple[float, Witness | None] = (0.0, None)
    more: tuple[str, ...] = ()
    upper = _upper(chain, lambda _: view.own) if (chain.transition > 0).all() else math.inf
    try:
        for target in _targets(chain.length, reach):
            for outputs in _choices(view):
                scenario = _scenario(view, chain, against, outputs, target, chain.length or 1)
                found = search_attack(scenario, reach)
                if found is not None and found.value > best[0]:
                    best = found.value, _witness(found, view, chain, target)
    except EffortSpent:  # the upper end needs no attack
        more = (SPENT,)
    leak = _leakage(max(best[0] - LOWER_ERROR, 0.0), upper, against, best[1])
    return leak.with_assumptions(more)


# --- two states -----------------------------------------------------------------------------------


def _two_states(
    mechanism: LocalMechanism | Levelled | MetricDP, chain: SecondOrderChain, view: "_View",
    against: Against, reach: int,
) -> Leakage | None:  # fmt: skip
    """Return the bracket of a chain of two states, None where nothing sharp is known of it."""
    if chain.size != 2 or not (chain.transition > 0).all() or not np.isfinite(view.own).all():
        return None
    flips = isinstance(mechanism, RandomizedResponse)
    law = law_of(chain) or ("words" if flips else None)
    ratios = MoveBounds(float(view.own[1, 0]), float(view.own[0, 1]))
    if law is None or max(ratios.one, ratios.zero) <= 0:
        return None
    effort = QUICK if reach < REACH else THOROUGH
    try:
        found = worst_case(chain, ratios, law, against, effort)
    except NotSupported:
        return None
    attained = view.weights.size and (law == "attractive" or not view.tied)
    lower: float = 0.0
    witness: Witness | None = None
    if attained:
        lower, witness = found.lower, _played_witness(found, view, chain)
    elif view.weights.size and not isinstance(against, Adversary):
        # no answer looks as what the worst algorithm's does: attacks on the answer itself
        other = _looser(chain, view, against, reach)
        lower, witness = other.lower, other.witness
    upper = found.upper
    if upper > WIDE * found.lower:  # the older bound may be the narrower one: both hold
        upper = min(upper, _upper(chain, lambda _: view.own))
    return Leakage(
        min(lower, upper), upper, "second-order", against, witness,
        assumptions=(ASSUMED, _BASIS[law]),
        citation="attractive laws and chains of order two (docs, theory-memory)",
    )  # fmt: skip


_BASIS: dict[Law, str] = {
    "attractive": "this law is attractive: the worst likelihood of any algorithm is known",
    "relabelled": "this law is attractive once every second record is relabelled: the worst "
    "likelihood of any algorithm is known",
    "words": "every word of outputs between two known records was tried",
}
"""Why the upper end holds."""


def _played_witness(found: AttainedBracket, view: "_View", chain: SecondOrderChain) -> Witness:
    """Return the attack of a bracket as a witness: sets of states, or outputs."""
    known = dict(found.known)
    places = np.arange(len(found.weights))
    tilt = np.log(found.weights[:, 1]) - np.log(found.weights[:, 0])
    ratio = np.log(view.weights[0, :, 1]) - np.log(view.weights[0, :, 0])  # of each output
    high, low = int(ratio.argmax()), int(ratio.argmin())
    shown = tuple(
        (int(t), view.names[high if tilt[t] > 0 else low])
        for t in places
        if int(t) not in known and tilt[t] != 0
    )
    value = found.value
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    return Witness(
        found.target, len(found.weights),
        tuple((record, chain.states[place]) for record, place in found.known),
        chain.states[value], chain.states[1 - value],
        sets=sets, outputs=() if sets else shown,
    )  # fmt: skip


def leakage(mechanism: Levelled | MetricDP, model: SecondOrderChain, against: Against) -> Leakage:
    """Return what a curator's answer leaks on a chain of order two."""
    plain = _plain(model)
    if plain is not None:
        return chain_leakage(mechanism, plain, against)
    return second_order_leakage(mechanism, model, against)


def _plain(model: SecondOrderChain) -> MarkovChain | None:
    """Return the first-order chain that the model is, if the record before the last is no matter.

    >>> _plain(SecondOrderChain.of(MarkovChain([[.9, .1], [.4, .6]]))).transition.tolist()
    [[0.9, 0.1], [0.4, 0.6]]
    """
    if (model.transition != model.transition[0]).any():
        return None
    return MarkovChain(model.transition[0], model.states, length=model.length)


def window_leakage(level: float, model: SecondOrderChain, against: Against, window: int) -> Leakage:
    """Return what all algorithms of a DP level leak about a window of two records or more.

    Given the window its sides are independent, and each depends on the two records at its end: the
    records of the window add their level, and each side what its records can tell of a pair.

    >>> chain = SecondOrderChain([[[.7, .3], [.6, .4]], [[.5, .5], [.4, .6]]])
    >>> round(window_leakage(0.5, chain, "any", 4).upper, 2)
    3.23
    """
    most = math.inf if model.length is None else up(model.length * level)
    own = up(window * level)
    if against == "informed":
        most = own
    elif (model.transition > 0).all():
        single = level * (1 - np.eye(model.size))
        sides = (PairSide(one.transition).limit(single) for one in (model, model.reverse()))
        most = min(most, up(own + sum(float(side.max()) for side in sides), 4))
    return _leakage(0.0, most, against, None)


def local(
    mechanism: LocalMechanism, model: SecondOrderChain, against: Against, effort: int
) -> Leakage:
    """Return what a series shown record by record leaks on a chain of order two."""
    plain = _plain(model)
    if plain is not None and not isinstance(mechanism, Redaction):
        return chain_channel(mechanism, plain, against, effort)
    return second_order_leakage(mechanism, model, against)


def _targets(length: int | None, reach: int) -> list[int | None]:
    """Return the records to attack: the middle one, all of a short series, None for no ends."""
    if length is None:
        return [None]
    return [length // 2] if length > reach else list(range(length))


def _upper(chain: SecondOrderChain, own: Own) -> float:
    """Return the bound for a mechanism that treats all records alike."""
    right = PairSide(chain.transition).limit(own(0))
    left = PairSide(chain.reverse().transition).limit(own(0))
    return float(joined_upper(chain, own, lambda _: left, lambda _: right).max())


def _view(
    mechanism: RandomizedResponse | XorNoise | Levelled | MetricDP, chain: SecondOrderChain
) -> _View:
    """Return what a mechanism shows of each record."""
    size = chain.size
    if isinstance(mechanism, XorNoise | MetricDP):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks on a chain of order two is not known; use "
            "RandomizedResponse, a count, or PureDP"
        )
    if isinstance(mechanism, RandomizedResponse):
        if mechanism.inputs != size:
            raise InvalidInput(
                f"the mechanism is for {mechanism.inputs} states, the chain has {size}; they must "
                "agree"
            )
        own = _channel_own(mechanism.matrix)
        return _View(mechanism.matrix.T[None], own, mechanism.names(chain.states))
    # (x, x'): one record moves the log-likelihood of an answer by at most the DP level
    own = np.where(np.eye(size, dtype=bool), 0.0, mechanism.level_upper(chain.length))
    if isinstance(mechanism, PureDP) and mechanism.unit != "record":
        raise NotSupported("a level for whole persons does not depend on their records' chain")
    if mechanism.level_upper(chain.length) > _MOST_LEVEL:
        return _View(np.empty((1, 0, size)), own, ())  # no attack that floats could weigh
    if isinstance(mechanism, PureDP):
        return _View(np.exp(mechanism.epsilon * _subsets(size))[None], own, _subset_names(chain))
    if mechanism.query.named:
        wanted = [_index(chain, state) for state in mechanism.query.named]
        counted = np.isin(np.arange(size), wanted).astype(np.float64)
        apart = np.abs(counted[:, None] - counted[None, :])  # (x, x')
        # far answers, (2, k): each counted record multiplies their likelihood by e^(+-1 / scale)
        tilts = np.exp(np.stack([counted, -counted]) / mechanism.scale)
        return _View(tilts[None], apart * up(1 / mechanism.scale), ("high", "low"), tied=True)
    if mechanism.query.per_state:
        # (subsets, k): the bins of a subset too high and all others too low, as far as can be
        tilts = np.exp(2 / mechanism.scale * _subsets(size))
        return _View(tilts[None], own, _subset_names(chain), tied=True)
    return _View(np.empty((1, 0, size)), own, ())


def _index(chain: SecondOrderChain, state: State) -> int:
    if state not in chain.states:
        raise InvalidInput(f"the chain has no state {state!r}; its states are {chain.states!r}")
    return chain.states.index(state)


def _subsets(size: int) -> Array:
    """Return the proper subsets of the states as rows of 0 and 1."""
    sizes = range(1, size)
    members = joined.from_iterable(combinations(range(size), count) for count in sizes)
    return np.array([np.isin(np.arange(size), chosen) for chosen in members], dtype=np.float64)


def _subset_names(chain: SecondOrderChain) -> tuple[State, ...]:
    names = np.arange(chain.size)
    return tuple(
        tuple(chain.states[place] for place in names[row > 0]) for row in _subsets(chain.size)
    )


def _channel_own(matrix: Array) -> Array:
    """Return max_z ln B(x, z) / B(x', z), rounded up."""
    # (x, x', z) -> (x, x'); 0 / 0 is an output that neither value shows
    worst = np.fmax.reduce(log_ratio(matrix[:, None], matrix), axis=2)
    largest = np.abs(np.log(matrix[matrix > 0])).max()
    return np.asarray(np.where(worst > 0, worst + 8 * np.finfo(float).eps * (1 + largest), 0.0))


def _choices(view: _View) -> list[list[int]]:
    """Return the sets of outputs from which each record may choose."""
    outputs = list(range(view.weights.shape[1]))
    if not outputs:
        return []
    return [[output] for output in outputs] if view.tied else [outputs]


def _scenario(
    view: _View, chain: SecondOrderChain, against: Against, outputs: Sequence[int],
    target: int | None, records: int,
) -> AttackScenario:  # fmt: skip
    """Return what can be seen around a target, one of so many records (None: without ends)."""
    ones, unit = np.ones(chain.size), np.eye(chain.size)
    known = [Symbol(unit[v], unit[v], known=v) for v in range(chain.size)]

    def look(distance: int) -> list[Symbol] | None:
        record = 0 if target is None else target + distance
        if not 0 <= record < records:
            return None
        weights = view.weights[record if len(view.weights) > 1 else 0]  # (outputs, k)
        shown = [Symbol(weights[z], ones, output=z) for z in outputs if weights[z].any()]
        if not distance or against == "ignorant":
            return shown
        return known if against == "informed" else [*shown, *known]

    if not view.tied or target is None:
        return AttackScenario(chain, look)
    tilt = view.weights[0, outputs[0]]
    sizes = {-1: target, 1: records - 1 - target}
    steps = {-1: chain.reverse().transition * tilt, 1: chain.transition * tilt}
    rests = {side: _leakages_messages(steps[side], sizes[side]) for side in (-1, 1)}
    return AttackScenario(chain, look, lambda side, far: rests[side][max(sizes[side] - far, 0)])


def _leakages_messages(step: Array, records: int) -> list[Array]:
    """Return the message of 0, 1, .. records that all weigh in, each up to a factor."""
    found = [np.ones(step.shape[:2])]
    for _ in range(records):
        message = (step * found[-1][None]).sum(axis=2)  # (x, y)
        found.append(message / message.max())
    return found


def _redaction(
    mechanism: Redaction, chain: SecondOrderChain, against: Against, reach: int
) -> Leakage:
    """Return the worst protected record: an attack on each, and a bound walked from far away."""
    table = mechanism.probabilities
    if table.shape[1] != chain.size or chain.length not in (None, mechanism.length):
        raise InvalidInput(
            f"the redaction is for {mechanism.length} records of {table.shape[1]} states, the "
            f"chain has {chain.length or 'any number'} of {chain.size}; they must agree"
        )
    names: tuple[State, ...] = (*chain.states, None)
    # (records, outputs, k): a record shows its own state, or last that it is erased
    stack = np.concatenate([(1 - table)[:, None] * np.eye(chain.size), table[:, None]], axis=1)
    view = _View(stack, np.zeros((chain.size, chain.size)), names)
    positive = bool((chain.transition > 0).all())
    best: tuple[float, Witness | None] = (0.0, None)
    upper = 0.0
    more: tuple[str, ...] = ()
    for target in mechanism.protect:
        scenario = _scenario(view, chain, against, range(len(names)), target, mechanism.length)
        try:
            found = search_attack(scenario, reach)
        except EffortSpent:  # the upper end needs no attack
            found, more = None, (SPENT,)
        if found is not None and found.value > best[0]:
            best = found.value, _witness(found, view, chain, target, mechanism.length)
        if against != "informed":
            upper = max(upper, _erased_upper(chain, stack, target) if positive else math.inf)
    leak = _leakage(max(best[0] - LOWER_ERROR, 0.0), upper, against, best[1])
    return leak.with_assumptions(more)


def _erased_upper(chain: SecondOrderChain, stack: Array, target: int) -> float:
    none = np.zeros((chain.size, chain.size))

    def own(distance: int) -> Array:
        record = target + distance
        return _channel_own(stack[record].T) if 0 <= record < len(stack) else none

    def walked(side: int, step: Array) -> list[Array]:
        touched = [r for r in range(len(stack)) if stack[r, -1].any()]
        last = max((side * (r - target) for r in touched), default=0)
        records = min(max(last, 0) + FAR, target if side < 0 else len(stack) - 1 - target)
        inside = target + side * (records + 1)
        rest = np.zeros((chain.size,) * 4)
        if 0 <= inside < len(stack):
            shown = np.where(np.eye(chain.size, dtype=bool), 0.0, np.inf)
            rest = PairSide(step).limit(shown)
        bounds = PairSide(step).recursion(lambda distance: own(side * distance), records, rest)
        return [*bounds, rest, rest, rest]

    left, right = walked(-1, chain.reverse().transition), walked(1, chain.transition)
    return float(joined_upper(chain, own, left.__getitem__, right.__getitem__).max())


def _witness(
    found: FoundAttack, view: _View, chain: SecondOrderChain, target: int | None,
    length: int | None = None,
) -> Witness:  # fmt: skip
    first = min(0, *(distance for distance, _ in found.seen))
    last = max(0, *(distance for distance, _ in found.seen))
    place = -first if target is None else target
    known = [(place + d, chain.states[s.known]) for d, s in found.seen if s.known is not None]
    shown = [(place + d, view.names[s.output]) for d, s in found.seen if s.output is not None]
    length = length or chain.length or last - first + 1
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    return Witness(
        place, length, tuple(known), chain.states[found.first], chain.states[found.other],
        sets=sets, outputs=() if sets else tuple(shown),
    )  # fmt: skip


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        min(lower, upper), upper, "second-order", against, witness,
        assumptions=(
            ASSUMED,
            "the upper end holds for attackers who know any records; it may be twice the truth",
        ),
        citation="two records at a time on a chain of order two (docs, robustness)",
    )  # fmt: skip


PROVERS: tuple[Prover, ...] = (
    AnswerProver("second-order", SecondOrderChain, leakage),
    ChannelProver("second-order, channel", SecondOrderChain, local),
    WindowProver("second-order, window", SecondOrderChain, window_leakage),
    ONE_ADVERSARY,
)
