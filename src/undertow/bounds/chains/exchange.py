"""The exchange rate: exactly what epsilon-DP algorithms leak on a Markov chain.

The leakage of all epsilon-DP algorithms against one adversary is epsilon plus one gain per side
(docs, "The exchange rate"). The sum is maximised over targets, pairs of values and options
(`undertow.bounds.chains.exchange_search`); here the best attack becomes a witness and is replayed.

Where the secret is the history of a window of w records, given it the sides are independent, the
left one depends on its first record alone and the right one on its last: the leakage about two
histories u, u' is epsilon #{t : u_t != u'_t} + s_left(u_1, u'_1) + s_right(u_w, u'_w), by the same
proof. For w >= 2 each side takes its own worst pair, and w epsilon + max s_left + max s_right is
exact where all transitions are possible, an upper end otherwise.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.ceilings import ceiling_of_all
from undertow.bounds.chains.exchange_search import Found, maximise, solve_homogeneous
from undertow.bounds.chains.histories import histories, informed_window
from undertow.bounds.chains.known import (
    informed_targets,
    nearest_known,
    ordered_pairs,
    stated,
    support_cycle,
    witnessed,
)
from undertow.bounds.chains.replay import replay_pure_dp
from undertow.bounds.chains.side_laws import (
    build_positions,
    build_rows,
    positions,
    start_error,
)
from undertow.bounds.chains.sides import ExchangeAttack, Sides
from undertow.bounds.chains.sweep import diverging, signed_sets
from undertow.certificate import Leakage, Witness
from undertow.errors import EffortSpent
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, down, up

__all__ = ["exchange_leakage"]

METHOD = "exchange"
_leakage = partial(stated, METHOD, "exchange-rate theorem (docs, theory)")

_BLOCK = 256
"""Positions of a chain with differing steps that are swept together (memory)."""

_REPLAYED = 20_000_000
"""Records times squared states up to which an attack is replayed once the effort is spent."""

_LONG = 1024
"""Records of a witness from which on no more signs are tried than help (cost)."""

_UNFINISHED = (
    "the chain has too many pairs of states that leak almost alike: the upper end is that of a "
    "search ended by its effort limit, the truth may be lower"
)

_ZEROS = (
    "some transitions are impossible: the upper end allows a window any two histories, possible or "
    "not"
)


def exchange_leakage(
    epsilon: float, chain: MarkovChain, against: Against = "any", window: int = 1
) -> Leakage:
    """Return the exact leakage of all epsilon-DP algorithms on a chain, as certified interval.

    epsilon + max over targets, values x != x' and options of s_left(x, x') + s_right(x, x').
    About a ``window`` of w >= 2 records in a row, w epsilon + max s_left + max s_right. Cost
    O(T k^2) per pair and sweep, with T records on either side of a target: as many as it takes for
    the chain to forget, whatever its length and whatever the window.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(exchange_leakage(1.0, chain).upper, 8)
    3.47487338
    >>> round(exchange_leakage(1.0, chain, window=12).upper, 8)
    14.47487338
    """
    reduced = chain.visited()
    if reduced is None or (window > 1 and support_cycle(reduced)[0].sum(axis=1).max() < 2):
        return _leakage(0.0, 0.0, against, None)
    if window > 1 and against == "informed":
        attack = informed_window(reduced, window)
        most = up(window * epsilon)
        if attack is None:  # one record of it may still be uncertain
            return _about(exchange_leakage(epsilon, chain, against), most, against)
        return _leakage(down(window * epsilon), most, against, attack)
    if against == "informed":
        target = next(informed_targets(reduced), None)
        if target is None:
            return _leakage(0.0, 0.0, against, None)
        own = ((target.target, (target.value,)),)
        return _leakage(epsilon, epsilon, against, replace(target, sets=own))
    found = Found(epsilon if window == 1 else up(window * epsilon), window)
    progress.attained(
        ("level", epsilon, chain, against, window),
        lambda: _conclude(replace(found, upper=math.inf), reduced, epsilon, against).lower,
    )
    endless = _endless(reduced, epsilon, against) if reduced.homogeneous else None
    if endless is not None:
        return _leakage(math.inf, math.inf, against, endless)
    try:
        _search(reduced, epsilon, against, found)
    except EffortSpent:
        with progress.unmetered():
            return _spent(found, reduced, epsilon, against)
    if found.upper == -math.inf:  # no target has two possible values
        return _leakage(0.0, 0.0, against, None)
    leak = _conclude(found, reduced, epsilon, against)
    if window == 1 or (reduced.transition > 0).all():
        return leak
    # a record of the window leaks no more than the window
    single = exchange_leakage(epsilon, chain, against)
    best = max(leak, single, key=lambda proved: proved.lower)
    return _about(best, leak.upper, against)


def _search(chain: MarkovChain, epsilon: float, against: Against, found: Found) -> None:
    """Raise ``found`` to the worst attack on a chain."""
    if chain.homogeneous:
        solve_homogeneous(chain, epsilon, against, found)
        return
    window = found.window
    targets, full = positions(chain, against, window), isinstance(against, Adversary)
    value, other = ordered_pairs(chain.size)
    for start in range(0, len(targets), _BLOCK):
        block = targets[start : start + _BLOCK]
        side_laws, rows = build_positions(chain, block, MAX_STEPS, against, full, window)
        maximise(Sides(side_laws, rows, value, other, epsilon, binary=chain.size == 2), found)


def _spent(found: Found, chain: MarkovChain, epsilon: float, against: Against) -> Leakage:
    """Return the interval that a search leaves whose effort is spent.

    The best attack so far, and what bounds all of them without a search, or with a short one.
    """
    upper = min(found.ceiling, ceiling_of_all(chain, epsilon, found.window))
    partial = replace(found, upper=upper)
    if partial.attack is not None and chain.size**2 * partial.attack.side_laws.steps > _REPLAYED:
        partial = replace(partial, attack=None)  # to replay it takes long, too
    leak = _conclude(partial, chain, epsilon, against)
    return leak.with_assumptions((progress.SPENT,))


def _about(attained: Leakage, upper: float, against: Against) -> Leakage:
    """Return the leakage about a window of a chain with impossible transitions."""
    lower = min(attained.lower, upper)
    return _leakage(lower, upper, against, attained.witness, more=(_ZEROS,))


def _endless(chain: MarkovChain, epsilon: float, against: Against) -> Witness | None:
    """Return a target and two values whose leakage grows without bound with the length, if any."""
    if chain.length is not None or nearest_known(against)[1]:
        return None
    apart = diverging(chain, epsilon)
    if not apart.any():
        return None
    rows = build_rows(chain, 1, against)
    for pair, (x, y) in enumerate(zip(*ordered_pairs(chain.size), strict=True)):
        places = np.flatnonzero(rows.feasible[:, pair])
        if places.size and apart[x, y]:
            target = int(rows.position[places[0]])
            return witnessed(chain, target, target + 2, {}, (x, y))
    return None


def _conclude(found: Found, chain: MarkovChain, epsilon: float, against: Against) -> Leakage:
    """Turn the best attack into a witness, replay it, and round the interval outwards."""
    attack = found.attack
    upper = up(found.upper, 16) + start_error(chain)
    if chain.length is not None:
        upper = min(upper, up(chain.length * epsilon))
    if attack is None:
        return _leakage(0.0, upper, against, None)
    value, witness = -math.inf, None
    for back in (0.0, 1e-12, 1e-9, 1e-6):
        trial = _witness(attack, chain, epsilon, back, found.window)
        if trial is None:  # no two histories have these ends
            return _leakage(0.0, upper, against, None)
        reached = replay_pure_dp(trial, chain, epsilon)
        if reached > value:
            value, witness = reached, trial
        elif trial.length > _LONG:  # clearer signs do not help, and each replay takes long
            break
        if value >= found.lower - GAP / 100:
            break
    lower = max(down(value, 64), 0.0)
    more = (_UNFINISHED,) if found.unfinished else ()
    return _leakage(min(lower, upper), upper, against, witness, more=more)


def _witness(
    attack: ExchangeAttack, chain: MarkovChain, epsilon: float, back: float, window: int
) -> Witness | None:
    """Return the attack with its sets, taken a little below the root, where signs are clear.

    None where no two histories of the window begin and end with the pairs of the attack.
    """
    lived = histories(chain, attack.position, attack.pairs, window)
    if lived is None:
        return None
    edge = attack.position, attack.position + window - 1
    known: dict[int, int] = {}
    sets: list[tuple[int, tuple[object, ...]]] = []
    reach = 0
    for side, option in enumerate(attack.options):
        if option is None:
            continue
        distance, column = option
        which, (x, y) = attack.which[side], attack.pairs[side]
        # an open side of a stationary chain, of which only one step is held, has the same at all
        masses = attack.side_laws.products[min(distance, attack.side_laws.steps), which]  # (x, v)
        table = (
            masses[:, column] if column < chain.size else masses @ attack.side_laws.weights[which]
        )
        logmu = attack.gains[side] + math.log(table[x]) - math.log(table[y]) - back
        if column < chain.size:
            place = edge[side] + (distance if side else -distance)
            known[place] = column
        found = signed_sets(attack.side_laws, which, x, y, distance, logmu, epsilon)
        for step, members in enumerate(found, start=1):
            shown = step < distance or column == chain.size
            if shown and 0 < len(members) < chain.size:  # the whole or nothing says nothing
                place = edge[side] + (step if side else -step)
                sets.append((place, tuple(chain.states[member] for member in members)))
        reach = max(reach, distance if side else 0)
    for record, (x, y) in enumerate(zip(*lived, strict=True), start=attack.position):
        sets += [(record, (chain.states[x],))] if x != y else []
    length = chain.length or max(edge[1] + reach + 1, 2)
    told = tuple(sorted(sets, key=lambda entry: entry[0]))
    return witnessed(chain, attack.position, length, known, lived, sets=told)
