r"""Chains of many persons as one model: for every person of a sample, or for a share of all persons.

Two states, each person's records a chain of their own. In the log-odds of staying,
A = ln P(0,0)/P(0,1) and B = ln P(1,1)/P(1,0), everything below is made of boxes.

**What a person's records leave open.** The exits from a state are independent trials with one
probability p; after h of them led across and m did not, the mixture likelihood over Jeffreys' law
divided by p^h (1-p)^m is a martingale of mean 1. By Ville's inequality [ville1939] it ever exceeds 1/beta with
probability at most beta, whatever rule ends the series (so the number of visits, which depends on
the records, does no harm), and {p : p^h (1-p)^m >= beta mixture(h, m)} is an interval that holds p
with probability 1 - beta. Two of them, at beta/2 each, are the person's box C.

**Every person of the sample.** With beta = (1 - confidence) / n all boxes hold together. The model
is a staircase that covers them: what matters for leakage is who stays longest, so boxes share their
lower corner and keep the largest upper corners, merged until few are left. Covering is all that is
needed; no order of leakages is assumed.

**A share of all persons.** Let persons be drawn independently of each other from any population,
and R_s be regions that grow with s and are fixed before these persons are looked at: the staircase
of *other* persons of the sample, set aside, with all its sides moved outwards by s. The score of a
chain is the least s with the chain in R_s; U_i = sup of the score over C_i. Take t with
P(score >= t) >= 1 - share and P(score <= t) >= share. Given a person's chain, C holds it with
probability 1 - beta, so P(U_i >= t) >= (1 - share)(1 - beta) = q. The (m+1)-th largest of n such U_i
is below t only if at most m of n independent events of probability at least q occur, which has
probability at most P(Bin(n, q) <= m). Otherwise R at that U holds a chain with probability at least
share. So a confidence c needs P(Bin(n, q) <= m) <= 1 - c: with m = 0 and share 0.99, 299 persons for
0.95, after which a beta of 0.003 is left for each person's estimate (after [wilks1941]).
"""  # noqa: E501

import math
from itertools import pairwise

import numpy as np

from undertow.base_query import State
from undertow.errors import InvalidInput, NotSupported
from undertow.models.chain_classes import ChainBox
from undertow.models.persons import of_persons
from undertow.models.sets import ModelSet
from undertow.models.tallies import Ints, Tally
from undertow.numerics import Array, check_count, check_number

__all__ = ["NOT_PRIVATE", "persons_needed", "population"]

NOT_PRIVATE = "not private: made of the records themselves, without noise"
"""What a model says of itself that was fitted to records without noise."""

_STEPS = 6
"""Boxes of a staircase, for chains that stay and for chains that change (each)."""
_GRID = 1 / 32
"""Log-odds are rounded outwards to multiples of this: no person's own number is kept."""
_BETA = 0.01
"""The error that a person's estimate may have before an extreme person is left out instead."""
_SLACK = 1e-9
"""Relative widening of every interval, outwards: far above the roundings of its logarithms."""


def persons_needed(share: float, confidence: float) -> int:
    """Return the least number of persons that can speak of a share of all persons.

    The least n with 1 - share^n > confidence.

    >>> persons_needed(.99, .95), persons_needed(.9, .9)
    (299, 22)
    """
    share, confidence = _part(share, "share"), _part(confidence, "confidence")
    n = max(1, math.floor(math.log1p(-confidence) / math.log(share)) - 1)
    while not 1 - share**n > confidence:
        n += 1
    return n


def population(
    tally: Tally | None,
    share: float | None = None,
    confidence: float = 0.95,
    *,
    least: int = 0,
    length: int | None = None,
) -> ModelSet:
    """Return the chains of all persons of a sample, or of a share of all persons, as a model.

    Arguments as in `FittedChain.population`. Cost O(P log P).
    """
    confidence = _part(confidence, "confidence")
    counts = _enough(of_persons(tally), tally, check_count(least, "least (transitions)", 0))
    if share is None:
        boxes, open_ends = _of_sample(counts, confidence)
        said = f"holds for every person in the sample ({len(counts)} persons)"
    else:
        share = _part(share, "share")
        boxes, open_ends = _of_share(counts, share, confidence)
        said = f"holds for {_percent(share)} of persons"
    said += f", with confidence {_percent(confidence)}"
    if least:
        said += f", among persons with at least {least} transitions"
    if share is not None:
        said += ", if those in the sample were drawn independently of each other"
    if not np.isfinite(boxes).all():
        raise NotSupported(
            f"the records of {open_ends} persons leave open that they never leave a state again, "
            "and then no noise is enough; leave persons with few records out (least=...), or "
            "speak of a share of all persons (share=0.99)"
        )
    states = () if tally is None else tally.states
    models = [_chain_box(box, states, length) for box in _rounded(boxes)]
    return ModelSet(models, f"{said}; {NOT_PRIVATE}")


def _enough(counts: Ints, tally: Tally | None, least: int) -> Ints:
    """Return the persons that can be spoken of, or refuse."""
    if counts.shape[1] != 2:
        raise NotSupported(
            f"the chains of persons are bounded for two states, and these have {counts.shape[1]}; "
            "make two states of the records, or fit cohorts of persons who are alike (by=...)"
        )
    several = counts.sum(axis=(1, 2))  # (P,)
    alone = int((several == 0).sum())
    if alone and not least:
        raise InvalidInput(
            f"{alone} of {len(counts)} persons have no two records that follow each other, and "
            "nothing is known of their chains; leave such persons out with least=1"
        )
    kept = counts[several >= max(least, 1)]
    if not len(kept):
        raise InvalidInput(f"no person has {max(least, 1)} transitions; say a smaller least=...")
    return np.asarray(kept)


def _of_sample(counts: Ints, confidence: float) -> tuple[Array, int]:
    """Return boxes (J, 2, 2) that hold all persons at once, and how many are open."""
    boxes = _regions(counts, (1 - confidence) / len(counts))
    open_ends = int((~np.isfinite(boxes)).any(axis=(1, 2)).sum())
    return (boxes, open_ends) if open_ends else (_staircase(boxes), 0)


def _of_share(counts: Ints, share: float, confidence: float) -> tuple[Array, int]:
    """Return boxes (J, 2, 2) that hold a share of all persons, and how many persons are open."""
    total, needed = len(counts), persons_needed(share, confidence)
    if total < needed:
        raise InvalidInput(
            f"{total} persons are too few to speak of {_percent(share)} of all persons with "
            f"confidence {_percent(confidence)}: {needed} are needed; ask for less, or leave "
            "share=... out, which speaks of the persons in the sample"
        )
    aside = min(total - needed, max(20, total // 4))
    order = np.random.default_rng(0).permutation(total)  # not by what the records say
    shape = np.zeros((1, 2, 2))  # without persons to set aside: around independent fair coins
    if aside:
        guess = counts[order[:aside]] + 0.5
        logs = np.log(guess)
        stay = np.stack(
            [logs[:, 0, 0] - logs[:, 0, 1], logs[:, 1, 1] - logs[:, 1, 0]], axis=1
        )  # (persons, state): log-odds of staying
        shape = _staircase(np.stack([stay, stay], axis=2))
    dropped, beta = _order_statistic(total - aside, share, confidence)
    boxes = _regions(counts[order[aside:]], beta)  # (n, state, end)
    # (n, J): how far a step of the staircase must grow to hold a person's box
    below = (shape[None, :, :, 0] - boxes[:, None, :, 0]).max(axis=2)
    above = (boxes[:, None, :, 1] - shape[None, :, :, 1]).max(axis=2)
    scores = np.sort(np.maximum(below, above).min(axis=1))[::-1]  # (n,)
    reach = float(scores[dropped])
    grown = shape + np.array([-reach, reach])
    grown = grown[(grown[:, :, 0] <= grown[:, :, 1]).all(axis=1)]  # a negative reach empties some
    return grown, int(np.isinf(scores).sum())


def _order_statistic(total: int, share: float, confidence: float) -> tuple[int, float]:
    """Return how many extreme persons may be left out, and the error left to each estimate."""
    from scipy.special import bdtr

    def fits(dropped: int, beta: float) -> bool:
        missed = float(bdtr(dropped, total, (1 - share) * (1 - beta)))
        return missed * (1 + _SLACK) <= 1 - confidence

    dropped = 0
    while fits(dropped + 1, _BETA):
        dropped += 1
    low, high = 0.0, 0.5
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(dropped, middle) else (low, middle)
    if not low:
        raise InvalidInput(
            f"{total} persons leave no room for the error of their estimates at this share and "
            "confidence; add a person, or ask for less"
        )
    return dropped, low


def _regions(counts: Ints, beta: float) -> Array:
    """Return the log-odds of staying that each person's records leave open, (P, state, end)."""
    stays = np.stack([counts[:, 0, 0], counts[:, 1, 1]], axis=1)  # (P, state)
    low, high = _interval(stays, counts.sum(axis=2) - stays, beta / 2)
    with np.errstate(divide="ignore"):
        return np.stack([np.log(low) - np.log1p(-low), np.log(high) - np.log1p(-high)], axis=2)


def _interval(hits: Ints, misses: Ints, beta: float) -> tuple[Array, Array]:
    """Return both ends of {p : p^h (1-p)^m >= beta mixture(h, m)}, rounded outwards.

    The logarithm of the left side is concave with its peak at h / (h + m), which is inside.
    """
    from scipy.special import betaln, xlog1py, xlogy

    floor = betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5) + math.log(beta)
    floor = floor - _SLACK * (1 + np.abs(floor))
    peak = np.where(hits + misses > 0, hits / np.maximum(hits + misses, 1), 0.5)
    ends = []
    for border, never in ((0.0, hits == 0), (1.0, misses == 0)):
        outside, inside = np.full(peak.shape, border), peak.copy()
        for _ in range(60):
            middle = (outside + inside) / 2
            kept = xlogy(hits, middle) + xlog1py(misses, -middle) >= floor
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        ends.append(np.where(never, border, outside))
    return ends[0], ends[1]


def _staircase(boxes: Array) -> Array:
    """Return few boxes (J, 2, 2) that cover boxes (P, 2, 2) of axes (state, end)."""
    staying = boxes.sum(axis=(1, 2)) >= 0
    found = []
    if staying.any():
        found.append(_steps(boxes[staying]))
    if not staying.all():  # mirrored: who changes most is who stays least
        found.append(-_steps(-boxes[~staying][:, :, ::-1])[:, :, ::-1])
    return np.concatenate(found)


def _steps(boxes: Array) -> Array:
    """Return boxes with one lower corner and few upper ones, which cover all."""
    low = boxes[:, :, 0].min(axis=0)  # (2,)
    corners: list[tuple[float, float]] = []
    # upper corners that no other exceeds in both, the first coordinate falling
    for first, second in sorted(map(tuple, boxes[:, :, 1].tolist()), reverse=True):
        if not corners or second > corners[-1][1]:
            corners.append((first, second))
    while len(corners) > _STEPS:
        costs = [(one[0] - two[0]) * (two[1] - one[1]) for one, two in pairwise(corners)]
        place = int(np.argmin(costs))
        corners[place : place + 2] = [(corners[place][0], corners[place + 1][1])]
    return np.array([np.stack([low, corner], axis=1) for corner in np.array(corners)])


def _rounded(boxes: Array) -> Array:
    """Return boxes of log-odds widened to the grid, without those inside another."""
    wide = np.stack(
        [np.floor(boxes[..., 0] / _GRID) * _GRID, np.ceil(boxes[..., 1] / _GRID) * _GRID], axis=2
    )
    wide = np.unique(wide, axis=0)  # (J, state, end)
    held = (wide[:, None, :, 0] >= wide[None, :, :, 0]) & (
        wide[:, None, :, 1] <= wide[None, :, :, 1]
    )
    inside = np.asarray(held.all(axis=2))  # (J, J): the first inside the second
    np.fill_diagonal(inside, False)
    return np.asarray(wide[~inside.any(axis=1)])


def _chain_box(box: Array, states: tuple[State, ...], length: int | None) -> ChainBox:
    """Return the chains with log-odds of staying in a box (state, end), rounded outwards."""
    low, high = (1 / (1 + np.exp(-box[:, end])) for end in (0, 1))  # (state,): staying
    least, most = low * (1 - _SLACK), 1 - (1 - high) * (1 - _SLACK)
    lower, upper = np.empty((2, 2)), np.empty((2, 2))
    for state in range(2):
        lower[state, state], upper[state, state] = least[state], most[state]
        lower[state, 1 - state], upper[state, 1 - state] = 1 - most[state], 1 - least[state]
    return ChainBox(lower, upper, states, length)


def _part(value: float, name: str) -> float:
    found = check_number(value, name)
    if not 0 < found < 1:
        raise InvalidInput(f"{name} must lie between 0 and 1, such as 0.95; found {found}")
    return found


def _percent(part: float) -> str:
    return f"{100 * part:.6g}%"
