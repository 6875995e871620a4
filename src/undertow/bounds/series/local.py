"""What a series leaks that is shown record by record: flips, erasures, or any other channel.

Every record of a Markov chain is shown through a channel of its own, independently of the others,
or with a noise chain added to it. The leakage is

    sup  ln Pr[z | x_i = x, x_K] / Pr[z | x_i = x', x_K]

over targets i, values x != x', known records K with values x_K, and outputs z, where the
conditions can occur. Two states are solved exactly by `joined`, few states by convex hulls
(`hulls`), more by certified bounds from both sides. What is found is replayed by a plain forward
pass, which gives the lower end; the upper end carries the rounding errors of its derivation.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.chains.exchange import exchange_leakage
from undertow.bounds.chains.known import (
    Ints,
    check_inside,
    complete,
    nearest_known,
    neighbours,
    stated,
    witnessed,
)
from undertow.bounds.chains.side_laws import start_error
from undertow.bounds.series.few import FewStates
from undertow.bounds.series.joined import Solved, join, join_pairs
from undertow.bounds.series.observed import (
    ObservedChain,
    Option,
    SeriesAttack,
    observe,
    replayed,
)
from undertow.bounds.series.pairwise import Strides
from undertow.bounds.series.readers import TwoStates
from undertow.certificate import Leakage, Witness
from undertow.channels import RandomizedResponse, XorNoise
from undertow.errors import InvalidInput, NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, check_count, log_ratio, up
from undertow.progress import SPENT
from undertow.queries import State

__all__ = ["EFFORT", "channel_leakage", "local_leakage", "worst_attacks"]

EXACT, INTERVAL = "exact", "interval"

SHORT = 64
"""Longest series read to its end against who knows nothing, without a bound on the rest (cost)."""

HULL = 2
"""Hulls are used up to this many states, and one more for each step of effort (cost)."""

CORNERS = 256
"""Corners of a hull that are carried on at no effort; twice as many for each step of it (cost)."""

EFFORT = 2
"""Default effort of the bounds that do not close by themselves; each step doubles the work."""


def local_leakage(
    mechanism: RandomizedResponse | XorNoise,
    chain: MarkovChain,
    against: Against = "any",
    effort: int = EFFORT,
) -> Leakage:
    """Return the leakage of a flipped series on a chain, as a certified interval.

    Two states are exact: O(n) where all steps are alike, O(n W) where they differ, with W records
    until the chain forgets; so is noise that is a chain itself. Up to ``effort`` + 2 states the
    interval closes too, unless a hull of messages is so round that it has to be thinned out.
    Beyond, the bounds from both sides leave a gap of some percent, or none. The method says
    "exact" or "interval" accordingly. The witness names what to see.

    Differs from the paper: Theorem 2 of [chakrabarti2022] claims that knowing nothing is the
    worst case. A record known to have the opposite value is worse.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> round(local_leakage(RandomizedResponse.binary(.02, .02), chain).upper, 8)
    9.40794154
    """
    if isinstance(mechanism, XorNoise):
        if chain.size != 2:
            raise NotSupported(
                f"noise is added modulo two, but the chain has {chain.size} states; use "
                "RandomizedResponse"
            )
        rho0, rho1 = mechanism.rho0, mechanism.rho1
        # (2,): how often a record is kept, and flipped
        rate = np.array([rho1, rho0]) / (rho0 + rho1)
        observed = ObservedChain(
            chain, np.array([[rate, rate[::-1]]]), chain.length,
            np.array([[1 - rho0, rho0], [rho1, 1 - rho1]]),
        )  # fmt: skip
        return _leakage_of(observed, against, None, chain.states, effort)
    names = mechanism.names(chain.states)
    return channel_leakage(mechanism.matrix, chain, against, outputs=names, effort=effort)


def channel_leakage(
    channels: object,
    chain: MarkovChain,
    against: Against = "any",
    targets: Iterable[int] | None = None,
    *,
    outputs: Sequence[State] | None = None,
    effort: int = EFFORT,
) -> Leakage:
    """Return the leakage of records shown through channels, as a certified interval.

    ``channels`` is one (k, m) matrix for all records or a stack (n, k, m); ``targets`` are the
    records that matter, by default all; ``outputs`` names the m columns (default 0, 1, ...), None
    among them standing for an erased record.

    >>> chain = MarkovChain([[.8, .2], [.2, .8]], length=5)
    >>> round(channel_leakage([[.7, .3], [.3, .7]], chain).upper, 8)
    2.31073677
    """
    observed = observe(chain, channels)
    count = observed.channels.shape[2]
    if outputs is not None and len(outputs) != count:
        raise InvalidInput(f"{count} outputs need {count} names, found {len(outputs)}")
    return _leakage_of(observed, against, targets, outputs or range(count), effort)


def _leakage_of(
    observed: ObservedChain, against: Against, targets: Iterable[int] | None,
    names: Sequence[State],
    effort: int,
) -> Leakage:  # fmt: skip
    against = check_against(against)
    wanted = _wanted(observed, against, targets)
    check_count(effort, "effort", 0)
    reduced = observed.chain.visited()
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    if reduced.size < observed.size:
        members = [observed.chain.index(state) for state in reduced.states]
        observed = replace(observed, chain=reduced, channels=observed.channels[:, members])
    if observed.noise is None and (observed.channels == observed.channels[:, :1]).all():
        return _leakage(0.0, 0.0, against, None)  # outputs say nothing about any record
    if against == "informed" and observed.noise is None:
        return _conclude(observed, _solve_informed(observed, wanted), against, names)
    solved = _solve(observed, against, wanted, effort)
    found = _conclude(observed, solved, against, names)
    if found.witness is not None and _diverges(observed, against, wanted is not None):
        return replace(found, lower=math.inf, upper=math.inf, method=EXACT)
    return found


def _solve(observed: ObservedChain, against: Against, wanted: Ints | None, effort: int) -> Solved:
    if observed.size == 2:
        return join(observed, TwoStates(observed), against, wanted)
    reader = _reader(observed, against, effort)
    solved = replace(join(observed, reader, against, wanted), unfinished=reader.ended)
    if solved.attack is None or (reader.strides is None and math.isfinite(solved.upper)):
        return solved
    return replace(solved, upper=min(solved.upper, _ceiling(observed, against)))


def _reader(observed: ObservedChain, against: Against, effort: int) -> FewStates:
    """Return how the sides of a chain of more than two states are read."""
    short = observed.length is not None and observed.length <= SHORT
    ignorant = against == "ignorant"
    strides = Strides.of(effort, observed.alike) if observed.size > HULL + effort else None
    most = CORNERS * 2**effort
    return FewStates(observed, not (ignorant and short), most, strides, tails=ignorant)


def worst_attacks(
    channel: object, chain: MarkovChain, against: Against = "any", effort: int = EFFORT
) -> list[Witness]:
    """Return the worst attack found on each ordered pair of values, for a search over channels.

    For chains of more than two states whose steps are alike, shown through one (k, k) matrix, and
    adversaries that are no list of records; for others there are none. What they attain is not
    certified here. Cost: as for the leakage, and a few percent of it for each pair.

    >>> chain = MarkovChain([[.8, .1, .1], [.3, .6, .1], [.4, .1, .5]], length=5)
    >>> [(one.value, one.other) for one in worst_attacks(np.eye(3) / 2 + 1 / 6, chain)]
    [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    """
    observed = observe(chain, channel)
    wide = against in ("any", "ignorant") and observed.size > 2
    if not wide or not observed.alike or chain.visited() is not chain:
        return []
    found = join_pairs(observed, _reader(observed, against, effort), against)
    return [
        _witness(observed, one.attack, one.outputs, chain.states, against)
        for one in found
        if one.attack is not None and one.outputs is not None
    ]


def _ceiling(observed: ObservedChain, against: Against) -> float:
    """Return what no algorithm of the channels' DP level exceeds."""
    channels = observed.channels
    level = float(np.nanmax(log_ratio(channels[:, :, None], channels[:, None])))
    if math.isinf(level):
        return level
    chain = observed.chain
    if chain.length != observed.length:
        chain = MarkovChain(chain.transition, chain.states, chain.start, observed.length)
    return exchange_leakage(up(level, 8), chain, against).upper


def _diverges(observed: ObservedChain, against: Against, fixed: bool) -> bool:
    """Return whether the leakage of a two-state chain surely grows without bound with its length.

    It does where the two values never meet (both states are kept for ever, or always left), and,
    unless the targets are ``fixed``, where one state is never left and the other can be kept: a
    late target then has seen long runs of either. Called for channels that say something.
    """
    if observed.size != 2 or observed.length is not None or observed.noise is not None:
        return False
    stay = observed.chain.transition.diagonal()
    apart = stay.min() == 1 or stay.max() == 0
    late = not fixed and stay.max() == 1 and stay.min() > 0
    return not nearest_known(against)[1] and bool(apart or late)


def _wanted(
    observed: ObservedChain, against: Against, targets: Iterable[int] | None
) -> Ints | None:
    """Return the targets asked for, or None for all."""
    named = None if targets is None else sorted({check_count(t, "target", 0) for t in targets})
    if isinstance(against, Adversary):
        if named is not None and against.target not in named:
            raise InvalidInput(
                f"the adversary wants record {against.target}, which is not among the targets"
            )
        named = [against.target]
    if named is None:
        return None
    if not named:
        raise InvalidInput("there are no targets; name at least one record, or leave them out")
    check_inside(against, observed.length, named)
    return np.array(named, dtype=np.int64)


def _solve_informed(observed: ObservedChain, wanted: Ints | None) -> Solved:
    """Return the best own output over all values possible between two known neighbours.

    Where all records are alike, supports repeat early on: the first targets and the last two
    stand for all.
    """
    chain, size = observed.chain, observed.size
    records = observed.length or 3 + 2 * size**2
    if wanted is not None:
        records = max(records, int(wanted.max()) + 1 + (observed.length is None))
    places = range(records) if wanted is None else wanted.tolist()
    if wanted is None and observed.alike and records > 4 + 2 * size**2:
        places = [*range(2 + 2 * size**2), records - 2, records - 1]
    best, found, shown = -math.inf, None, 0
    for target in places:
        channel = observed.channel(target)
        weight = log_ratio(channel[:, None], channel)  # (x, x', output)
        weight = np.where(np.isnan(weight), -np.inf, weight)
        for known, pairs in neighbours(chain, target, records):
            for x, y in pairs:
                if weight[x, y].max() > best:
                    best, shown = float(weight[x, y].max()), int(weight[x, y].argmax())
                    left, right = (
                        Option(int(place in known), known.get(place))
                        for place in (target - 1, target + 1)
                    )
                    found = SeriesAttack(target, records, left, right, x, y)
    if found is None:
        return Solved(0.0)
    return Solved(best, found, {found.target: shown})


def _conclude(
    observed: ObservedChain, solved: Solved, against: Against, names: Sequence[State]
) -> Leakage:
    """Replay the attack, round outwards, and name what it looks at."""
    more = (SPENT,) if solved.unfinished else ()
    if solved.attack is None or solved.outputs is None:
        return _leakage(0.0, solved.upper, against, None).with_assumptions(more)
    value, error = replayed(observed, solved.attack, solved.outputs)
    # a difference of two logarithms is off by the roundings of the largest
    largest = 1.0 - math.log(float(observed.channels[observed.channels > 0].min()))
    slack = start_error(observed.chain) + 16 * ROUNDOFF * largest
    lower, upper = max(value - error - slack, 0.0), up(solved.upper, 16) + slack
    witness = _witness(observed, solved.attack, solved.outputs, names, against)
    return _leakage(lower, upper, against, witness).with_assumptions(more)


def _witness(
    observed: ObservedChain, attack: SeriesAttack, shown: dict[int, int], names: Sequence[State],
    against: Against,
) -> Witness:  # fmt: skip
    known = attack.known()
    if against == "informed":
        known = complete(observed.chain, known, attack.target, attack.length)
    return witnessed(
        observed.chain, attack.target, attack.length, known, (attack.value, attack.other),
        outputs=tuple((record, names[shown[record]]) for record in sorted(shown)),
    )  # fmt: skip


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    found = stated(
        EXACT, "extreme messages on a chain (docs, theory)", lower, upper, against, witness
    )
    return found if found.closed else replace(found, method=INTERVAL)
