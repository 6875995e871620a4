"""What a redacted series reveals about its protected records, exactly.

An attacker sees some records and sees that others are erased. How often a record is erased may
depend on its value, so an erasure is evidence too. On either side of a protected record nothing
matters beyond the first record that is shown or known, because the chain forgets the rest there.
"""

from dataclasses import replace

import numpy as np

from undertow.adversaries import Adversary, Against, Secrets, check_against
from undertow.bounds.chains.known import (
    check_inside,
    joined,
    nearest_known,
    ordered_pairs,
    stated,
    supports,
    witnessed,
)
from undertow.bounds.chains.side_laws import start_error
from undertow.bounds.series.erasing import (
    build_side,
    side_losses,
)
from undertow.certificate import Leakage, Witness
from undertow.channels import Redaction
from undertow.errors import InvalidInput, NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import down, log_ratio, up
from undertow.queries import State

__all__ = ["redaction_leakage"]

METHOD = "exact"

FAINT = 1e-250
"""Least probability of a state of the target (lower side): below, its log would lose digits."""


def redaction_leakage(
    mechanism: Redaction, chain: MarkovChain, against: Against = "any"
) -> Leakage:
    """Return what a redacted series reveals about its protected records, as a certified interval.

    For a target i, values x and x', known records K: the largest ln Pr[z | x, x_K] / Pr[z | x',
    x_K] over outputs z, each record of which is its value or erased (Definition 1 of
    [massny2025] is the case of no known record). Given the value of the target its two sides
    are independent, so the largest losses of the sides add up. On a side, with E_t(x, w) the
    probability that the records nearer than t are erased and the one at distance t is w,

        shown w at t, nothing known:        ln E_t(x, w) / E_t(x', w)
        shown w at t, v known at c > t:     ln E_t(x, w) / E_t(x', w) - ln P^c(x, v) / P^c(x', v)
        erased up to c, where v is known:   ln E_c(x, v) / E_c(x', v) - ln P^c(x, v) / P^c(x', v)
        erased to the end of the series:    ln E_end(x) / E_end(x').

    Both ends are the same number rounded outwards. Cost O(n k^3) for each protected record; less
    where some record nearby is always shown.

    Parameters
    ----------
    mechanism
        The probabilities of erasure, a row for each record; the chain must have as many records,
        or no length.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` (who learns nothing from a redaction),
        or an `Adversary`, whose target may be any record.

    >>> chain = MarkovChain([[.75, .25], [.5, .5]])
    >>> leak = redaction_leakage(Redaction([[1, 1], [1 / 8, 1]]), chain, "ignorant")
    >>> round(leak.upper, 6), leak.witness.outputs
    (0.492476, ((1, None),))
    """
    against = check_against(against)
    _check(mechanism, chain, against)
    targets = (against.target,) if isinstance(against, Adversary) else mechanism.protect
    secrets = Secrets(records=targets)
    found = stated(METHOD, "Definition 1 of [massny2025]", 0.0, 0.0, against, secrets=secrets)
    if against == "informed":  # the neighbours are known, and the record itself is erased
        return found
    for target in targets:
        lower, upper, witness = _target_loss(mechanism, chain, against, target)
        found = replace(found, upper=max(found.upper, upper))
        if lower > found.lower:
            found = replace(found, lower=lower, witness=witness)
    return found


def _target_loss(
    mechanism: Redaction, chain: MarkovChain, against: Against, target: int
) -> tuple[float, float, Witness | None]:
    """Return both ends of the loss about one record, and what attains it."""
    law = chain.law(target)
    possible = supports(chain, target + 1, target)[0]
    if (law[possible] < FAINT).any():
        raise NotSupported(
            f"a state of record {target} is possible but has a probability below {FAINT:g}; "
            "drop the state, or make its probability 0"
        )
    value, other = ordered_pairs(chain.size)
    near = (None, None) if against == "any" else nearest_known(against)
    sides = [
        build_side(chain, mechanism.probabilities, target, right, near[right])
        for right in (False, True)
    ]
    losses, options, errors = zip(
        *(side_losses(side, against, near[right]) for right, side in enumerate(sides)), strict=True
    )
    erased = mechanism.probabilities[target]  # its own output says nothing if it is always erased
    own = np.zeros(len(value))
    if (erased < 1).any():
        own = np.where(erased[value] < 1, np.inf, log_ratio(erased[value], erased[other]))
    both = np.where(possible[value] & possible[other], 0.0, -np.inf)  # (pairs,)
    total = joined(*losses, own, both)  # the sides are independent given the target: losses add
    if total.max() == -np.inf:  # the target has one value only
        return 0.0, 0.0, None
    pair = int(total.argmax())
    loss = float(total[pair])
    error = sum(errors) + start_error(chain)
    x, y = int(value[pair]), int(other[pair])
    seen: dict[int, State] = {}
    if (erased < 1).any():
        seen[target] = chain.states[x] if erased[x] < 1 else None
    known: dict[int, int] = {}
    for option, sign in ((options[0](pair), -1), (options[1](pair), 1)):
        seen |= {target + sign * distance: None for distance in range(1, option.erased + 1)}
        if option.shown:
            seen[target + sign * option.shown] = chain.states[option.state]
        if option.known:
            known[target + sign * option.known] = option.value
    outputs = tuple(sorted(seen.items()))
    witness = witnessed(chain, target, mechanism.length, known, (x, y), outputs=outputs)
    return max(down(loss, 16) - error, 0.0), max(up(loss, 16) + error, 0.0), witness


def _check(mechanism: Redaction, chain: MarkovChain, against: Against) -> None:
    """Refuse a table that does not fit the chain, or an adversary outside of it."""
    records, states = mechanism.probabilities.shape
    if states != chain.size:
        raise InvalidInput(
            f"the table of erasures has {states} states, the chain {chain.size}; they must agree"
        )
    if chain.length not in (None, records):
        raise InvalidInput(
            f"the table of erasures has {records} records, the chain {chain.length}; they must "
            "agree"
        )
    check_inside(against, records)
