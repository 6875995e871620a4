"""Leakage of mechanisms on chains of order two, where the next record depends on the last two.

`second_order_leakage` takes the sharpest of brackets for two states (`memory.two_states`), pairwise
bounds for one adversary (`bounds.one_adversary`), and a bound on two records at a time for
everything else, which may be twice the truth, above an attack of a search.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import combinations, permutations

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.channels.flips import chain_leakage as chain_channel
from undertow.bounds.core.patterns import (
    Pattern,
    PatternSearch,
    Symbol,
    known_values,
    outputs,
    shown_message,
)
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
from undertow.bounds.one_adversary import ONE_ADVERSARY, window_attack
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
from undertow.progress import SPENT
from undertow.queries import State

__all__ = [
    "PROVERS",
    "REACH",
    "Own",
    "PairSide",
    "joined_upper",
    "leakage",
    "local",
    "second_order_leakage",
    "spread_upper",
]


ROUNDING = 1e-11
"""Relative and absolute padding of each step's result (upper side): a few dozen roundings of
logarithms, which are below a thousand, and of exponents, where the relative part helps."""

PADS = (1e-9, 1e-6, 1e-3)
"""Margins added to a limit before it is verified (upper side); the first that holds is used."""

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
"""Distance from the target up to which attacks are searched (cost)."""

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
    bracket = _two_states(mechanism, chain, view, against, reach)
    if bracket is not None:
        return bracket
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
            for chosen in _choices(view):
                search = _pattern_search(view, chain, against, chosen, target, chain.length or 1)
                pattern = _searched(search, reach)
                if pattern is not None and pattern.value > best[0]:
                    best = pattern.value, _witness(pattern, view, chain, target)
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
        bracket = worst_case(chain, ratios, law, against, effort)
    except NotSupported:
        return None
    attained = view.weights.size and (law == "attractive" or not view.tied)
    lower: float = 0.0
    witness: Witness | None = None
    if attained:
        lower, witness = bracket.lower, _played_witness(bracket, view, chain)
    elif view.weights.size and not isinstance(against, Adversary):
        # no answer looks as what the worst algorithm's does: attacks on the answer itself
        other = _looser(chain, view, against, reach)
        lower, witness = other.lower, other.witness
    upper = bracket.upper
    if upper > WIDE * bracket.lower:  # the older bound may be the narrower one: both hold
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


def _played_witness(bracket: AttainedBracket, view: "_View", chain: SecondOrderChain) -> Witness:
    """Return the attack of a bracket as a witness: sets of states, or outputs."""
    known = dict(bracket.known)
    places = np.arange(len(bracket.weights))
    tilt = np.log(bracket.weights[:, 1]) - np.log(bracket.weights[:, 0])
    ratio = np.log(view.weights[0, :, 1]) - np.log(view.weights[0, :, 0])  # of each output
    high, low = int(ratio.argmax()), int(ratio.argmin())
    shown = tuple(
        (int(t), view.names[high if tilt[t] > 0 else low])
        for t in places
        if int(t) not in known and tilt[t] != 0
    )
    value = bracket.value
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    return Witness(
        bracket.target, len(bracket.weights),
        tuple((record, chain.states[place]) for record, place in bracket.known),
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
    records of the window add their level, and each side what its records can tell of a pair. The
    lower end is that of attacks on a window in the middle.

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
    lower, witness = 0.0, None
    if not isinstance(against, Adversary):  # who knows records has attacks of their own
        lower, witness = window_attack(level, model, against, window)
    return _leakage(lower, most, against, witness)


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
    places = list(range(view.weights.shape[1]))
    if not places:
        return []
    return [[place] for place in places] if view.tied else [places]


def _pattern_search(
    view: _View, chain: SecondOrderChain, against: Against, chosen: Sequence[int],
    target: int | None, records: int,
) -> PatternSearch:  # fmt: skip
    """Return the search around a target, one of so many records (None: without ends)."""
    known, law = known_values(chain.size), chain.lowered()
    one = np.isin(np.arange(view.weights.shape[1]), list(chosen))[:, None]

    def look(distance: int) -> list[Symbol] | None:
        record = 0 if target is None else target + distance
        if not 0 <= record < (records if target is not None else 1):
            return None
        weights = view.weights[record if len(view.weights) > 1 else 0]  # (outputs, k)
        shown = outputs(weights * one)
        if not distance or against == "ignorant":
            return shown
        return known if against == "informed" else [*shown, *known]

    if not view.tied or target is None:
        return PatternSearch(law, look)
    tilt = view.weights[0, chosen[0]][law.symbols]
    steps = {-1: law.reversed().kernels[0] * tilt, 1: law.kernels[0] * tilt}
    sizes = {-1: target, 1: records - 1 - target}
    ones = np.ones(law.size)
    # all records of the answer weigh in, those beyond a pattern too
    return PatternSearch(
        law, look,
        lambda side, far: [
            (np.stack([shown_message(steps[side], max(sizes[side] - far, 0)), ones]), ())
        ],
    )  # fmt: skip


def _searched(search: PatternSearch, reach: int) -> Pattern | None:
    """Return the best pattern of a reach and of half of it."""
    reaches = sorted({max(reach // 2, 2), reach})
    patterns = filter(None, (search.search(each) for each in reaches))
    return max(patterns, key=lambda pattern: pattern.value, default=None)


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
        everything = range(len(names))
        search = _pattern_search(view, chain, against, everything, target, mechanism.length)
        pattern: Pattern | None = None
        try:
            pattern = _searched(search, reach)
        except EffortSpent:  # the upper end needs no attack
            more = (SPENT,)
        if pattern is not None and pattern.value > best[0]:
            best = pattern.value, _witness(pattern, view, chain, target, mechanism.length)
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
    pattern: Pattern, view: _View, chain: SecondOrderChain, target: int | None,
    length: int | None = None,
) -> Witness:  # fmt: skip
    """Return a pattern as a witness, sets of states or outputs."""
    before = len(pattern.left)
    place = before if target is None else target
    codes = [(place - 1 - number, code) for number, code in enumerate(pattern.left)]
    codes += [(place, pattern.own)] if pattern.own is not None else []
    codes += [(place + 1 + number, code) for number, code in enumerate(pattern.right)]
    codes.sort()
    known = tuple((record, chain.states[code]) for record, code in codes if code >= 0)
    shown = tuple((record, view.names[~code]) for record, code in codes if code < 0)
    length = length or chain.length or before + 1 + len(pattern.right)
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    first, other = pattern.pair
    return Witness(
        place, length, known, chain.states[first], chain.states[other],
        sets=sets, outputs=() if sets else shown,
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
