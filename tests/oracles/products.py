"""Product likelihoods on long series of lowered laws: what an attack attains, in plain floats.

Lower ends of what all likelihoods within limits leak, sharing nothing with the bounds. A beam over
everything that records can be (known to be a value, or unknown and seen with an extreme factor)
finds attacks, coordinate ascent improves them, one forward pass in logarithms replays them, and a
linear program frees the unknown records nearest to the target.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import UndertowError
from undertow.models.lowered import LoweredLaw
from undertow.testing.enumeration import Pattern, extreme_factors, law_program

Floats = npt.NDArray[np.float64]
Histories = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Attack:
    """A target with two histories in a series from ``phase`` on, and what is known or seen of it.

    ``known`` has values of records, ``factors`` the likelihoods (k,) of unknown ones; records that
    are in neither are unknown and do not matter.
    """

    phase: int
    records: int
    target: int
    histories: Histories
    known: Mapping[int, int]
    factors: Mapping[int, tuple[float, ...]]

    @property
    def secret(self) -> tuple[int, ...]:
        """The records that are wanted."""
        return tuple(range(self.target, self.target + len(self.histories[0])))

    @property
    def pattern(self) -> Pattern:
        """The adversary and the pair, without the likelihood."""
        known = tuple(sorted(self.known))
        return Pattern(self.secret, known, tuple(self.known[t] for t in known), *self.histories)


def own_limits(limits: Floats, histories: Histories) -> float:
    """The limits of the secret's own records."""
    return float(sum(limits[a, b] for a, b in zip(*histories, strict=True)))


def marginals(law: LoweredLaw) -> list[Floats]:
    """The laws of the hidden state at each phase, from the start on."""
    laws = [np.asarray(law.start)]
    for kernel in law.kernels[:-1]:
        laws.append(laws[-1] @ kernel)
    return laws


def periodic(kernels: Any, symbols: npt.ArrayLike | Sequence[int]) -> LoweredLaw:
    """A cycle of positive kernels in its periodic law, by powers of the whole cycle."""
    table = np.asarray(kernels, dtype=float)
    day = np.linalg.multi_dot([*table, np.eye(table.shape[1])]) if len(table) > 1 else table[0]
    for _ in range(60):
        day = day @ day
        day /= day.sum(axis=1, keepdims=True)
    start = day.mean(axis=0)
    for _ in range(4):  # rounding of the powers
        for kernel in table:
            start = start @ kernel
        start = start / start.sum()
    return LoweredLaw(table, np.asarray(symbols, dtype=np.intp), start)


# --- one attack -----------------------------------------------------------------------------------


def replay(law: LoweredLaw, limits: Floats, attack: Attack) -> float:
    """What an attack within limits reveals, the secret's own limits included."""
    for factor in attack.factors.values():
        apart = np.log(factor)[:, None] - np.log(factor)
        assert (apart <= limits + 1e-9).all(), "the likelihood is beyond the limits"
    return own_limits(limits, attack.histories) + revealed(law, attack)


def revealed(law: LoweredLaw, attack: Attack) -> float:
    """What other records than the secret reveal: all paths, in logarithms, in plain loops."""

    def log_sum(terms: Sequence[float]) -> float:
        top = max(terms)
        return top + math.log(math.fsum(math.exp(x - top) for x in terms)) if top > -1e300 else top

    def log(x: float) -> float:
        return math.log(x) if x > 0 else -math.inf

    steps = [[[log(x) for x in row] for row in kernel.tolist()] for kernel in law.kernels]
    symbols, count = [int(v) for v in law.symbols], len(law.kernels)
    start = [log(x) for x in marginals(law)[attack.phase % count].tolist()]

    def evidence(history: tuple[int, ...], seen: bool) -> float:
        fixed = {**attack.known, **dict(zip(attack.secret, history, strict=True))}
        message = start
        for t in range(attack.records):
            if t:
                step = steps[(attack.phase + t - 1) % count]
                message = [
                    log_sum([message[s] + step[s][z] for s in range(len(symbols))])
                    for z in range(len(symbols))
                ]
            if t in fixed:
                weights = [0.0 if symbol == fixed[t] else -math.inf for symbol in symbols]
                message = [x + w for x, w in zip(message, weights, strict=True)]
            elif seen and t in attack.factors:
                weights = [log(attack.factors[t][symbol]) for symbol in symbols]
                message = [x + w for x, w in zip(message, weights, strict=True)]
        return log_sum(message)

    one, two = (evidence(u, True) - evidence(u, False) for u in attack.histories)
    return one - two


def ascend(law: LoweredLaw, limits: Floats, attack: Attack, sweeps: int = 4) -> Attack:
    """Improve an attack record by record: known with any value, or unknown with any factor.

    An unknown record without a factor gets one; what a record becomes is the best with all others
    fixed, until a sweep changes nothing.
    """
    rays = extreme_factors(limits)
    size, values = len(law.symbols), len(limits)
    masks = np.eye(values)[:, law.symbols]  # (value, hidden state)
    plain = np.concatenate([masks, np.ones((len(rays), size))])  # by what a record is
    seen = np.concatenate([masks, rays[:, law.symbols]])
    weights = np.stack([seen, plain, seen, plain])  # (x seen, x plain, x' seen, x' plain)
    secret, start = attack.secret, marginals(law)[attack.phase % len(law.kernels)]
    steps = [law.kernel(attack.phase + t) for t in range(attack.records)]
    choice = {}
    for t in range(attack.records):
        if t in attack.known:
            choice[t] = attack.known[t]
        elif t not in secret:
            factor = np.asarray(attack.factors.get(t, rays[0]))
            near = np.abs(np.log(rays / rays[:, :1]) - np.log(factor / factor[0])).sum(axis=1)
            choice[t] = values + int(near.argmin())

    def weigh(t: int) -> Floats:
        if t in secret:
            one, two = (masks[u[t - secret[0]]] for u in attack.histories)
            return np.stack([one, one, two, two])
        return np.asarray(weights[:, choice[t]])

    for _ in range(sweeps):
        before = dict(choice)
        backward = [np.ones((4, size))]  # beyond record t, from the last one inwards
        for t in range(attack.records - 1, 0, -1):
            message = (weigh(t) * backward[-1]) @ steps[t - 1].T
            backward.append(message / message.sum(axis=1, keepdims=True))
        backward.reverse()
        message = np.tile(start, (4, 1))
        for t in range(attack.records):
            if t not in secret:
                sums = np.einsum("is,ics->ic", message * backward[t], weights)
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs = np.log(sums)
                    value = logs[0] - logs[1] - logs[2] + logs[3]
                value[~np.isfinite(value)] = -math.inf
                best = int(value.argmax())
                if value[best] > value[choice[t]] + 1e-12:
                    choice[t] = best
            message = (message * weigh(t)) @ steps[t]
            message = message / message.sum(axis=1, keepdims=True)
        if choice == before:
            break
    known = {t: c for t, c in choice.items() if c < values}
    factors = {t: tuple(rays[c - values].tolist()) for t, c in choice.items() if c >= values}
    return replace(attack, known=known, factors=factors)


def freed(law: LoweredLaw, limits: Floats, attack: Attack, most: int) -> float:
    """The linear program over the ``most`` unknown records nearest to the target.

    All other unknown records keep their factors, so that the value is attained.
    """
    middle = attack.target + (len(attack.secret) - 1) / 2
    unknown = sorted(attack.factors, key=lambda t: abs(t - middle))
    seen = {t: attack.factors[t] for t in unknown[most:]}
    seen |= {
        t: (1.0,) * len(limits)
        for t in range(attack.records)
        if t not in attack.factors and t not in attack.known and t not in attack.secret
    }
    return law_program(law, limits, attack.pattern, attack.records, attack.phase, seen)


def random_attack(
    rng: np.random.Generator, law: LoweredLaw, limits: Floats, records: int, histories: Histories
) -> Attack:
    """A random target in a random phase, random records known, random extreme factors."""
    rays, width = extreme_factors(limits), len(histories[0])
    target = int(rng.integers(records - width + 1))
    others = [t for t in range(records) if not target <= t < target + width]
    share = rng.choice([0.0, 0.1, 0.4, 0.8])
    known = {t: int(rng.integers(len(limits))) for t in others if rng.random() < share}
    factors = {
        t: tuple(rays[rng.integers(len(rays))].tolist()) for t in others if t not in known
    }  # fmt: skip
    phase = int(rng.integers(len(law.kernels)))
    return Attack(phase, records, target, histories, known, factors)


# --- all attacks by a beam ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pool:
    """Ways to go on outwards from one record: messages without and with what is seen."""

    plain: Floats  # (ways, hidden states), each of sum 1
    seen: Floats
    parent: npt.NDArray[np.intp]  # in the pool one record further out; -1: the series ends here
    choice: npt.NDArray[np.intp]  # what the record was: a value, or k + the number of a factor


def _pools(
    kernels: Sequence[Floats], ends: Sequence[Floats], symbols: npt.NDArray[np.intp], rays: Floats,
    box: float, width: int,
) -> list[_Pool]:  # fmt: skip
    """Pools from outside to inside: ``kernels[j]`` leads inwards, ``ends[j]`` is an open end.

    For each pair of hidden states the ``width`` ways that tell them apart best, one for each
    ``box`` of log-quotients of plain messages.
    """
    values, size = rays.shape[1], len(symbols)
    masks = np.eye(values)[:, symbols]
    plain_by = np.concatenate([masks, np.ones((len(rays), size))])
    seen_by = np.concatenate([masks, rays[:, symbols]])
    first = np.full(1, -1)
    pools = [_Pool(ends[0][None], ends[0][None], first, first)]
    pairs = list(itertools.permutations(range(size), 2))
    hashes = np.random.default_rng(0).integers(1, 2**40, size)
    for kernel, end in zip(kernels, ends[1:], strict=True):
        pool, choices = pools[-1], len(plain_by)
        plain = (pool.plain[:, None] * plain_by).reshape(-1, size) @ kernel
        seen = (pool.seen[:, None] * seen_by).reshape(-1, size) @ kernel
        parent = np.repeat(np.arange(len(pool.plain)), choices)
        choice = np.tile(np.arange(choices), len(pool.plain))
        possible = plain.sum(axis=1) > 0
        plain, seen, parent, choice = (x[possible] for x in (plain, seen, parent, choice))
        plain, seen = (x / x.sum(axis=1, keepdims=True) for x in (plain, seen))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(plain)
            score = np.nan_to_num(np.log(seen) - logs, nan=0.0, neginf=0.0, posinf=0.0)
            place = np.nan_to_num((logs - logs[:, :1]) / box, neginf=-9e3, posinf=9e3)
        boxes = np.rint(place).astype(np.int64) @ hashes
        kept = set()
        for i, j in pairs:
            gain = score[:, i] - score[:, j]
            best = np.argsort(-gain, kind="stable")[: 12 * width]
            _, distinct = np.unique(boxes[best], return_index=True)
            kept.update(best[np.sort(distinct)[:width]].tolist())
        rows = np.array(sorted(kept), dtype=np.intp)
        pools.append(
            _Pool(
                np.concatenate([plain[rows], end[None]]), np.concatenate([seen[rows], end[None]]),
                np.append(parent[rows], -1), np.append(choice[rows], -1),
            )
        )  # fmt: skip
    return pools


def _trace(pools: list[_Pool], way: int) -> list[int]:
    """What the records of a way are, from the target outwards."""
    listed = []
    for pool in reversed(pools):
        if pool.parent[way] < 0:
            break
        listed.append(int(pool.choice[way]))
        way = int(pool.parent[way])
    return listed


def beam(
    law: LoweredLaw, limits: Floats, depth: int = 40, width: int = 32, window: int = 1,
    box: float = 0.15, sides: tuple[bool, bool] = (True, True),
) -> dict[Histories, tuple[float, Attack]]:  # fmt: skip
    """The best attack found for each pair of histories, over all phases, lengths and patterns.

    Up to ``depth`` records on either of ``sides``.
    """
    depths = [depth * each for each in sides]
    rays, phases, size = extreme_factors(limits), len(law.kernels), len(law.symbols)
    laws, values = marginals(law), len(limits)
    masks = np.eye(values)[:, law.symbols]
    best: dict[Histories, tuple[float, Attack]] = {}
    lived = list(itertools.product(range(values), repeat=window))
    for phase in range(phases):  # of the target's first record
        outer = range(phase - depths[0], phase + 1)
        left = _pools(
            [law.kernels[t % phases] for t in outer[:-1]], [laws[t % phases] for t in outer],
            law.symbols, rays, box, width,
        )  # fmt: skip
        last = phase + window - 1
        right = _pools(
            [law.kernels[t % phases].T for t in range(last + depths[1] - 1, last - 1, -1)],
            [np.ones(size) / size] * (depths[1] + 1), law.symbols, rays, box, width,
        )  # fmt: skip
        shown = {}
        for history in lived:
            path = np.diag(masks[history[0]])
            for t, symbol in enumerate(history[1:]):
                path = path @ law.kernels[(phase + t) % phases] * masks[symbol]
            with np.errstate(divide="ignore", invalid="ignore"):
                seen = np.log(left[-1].seen @ path @ right[-1].seen.T)
                shown[history] = seen - np.log(left[-1].plain @ path @ right[-1].plain.T)
        for pair in itertools.permutations(lived, 2):
            gain = shown[pair[0]] - shown[pair[1]]
            gain = np.where(np.isfinite(gain), gain, -math.inf)
            i, j = np.unravel_index(int(gain.argmax()), gain.shape)
            value = float(gain[i, j]) + own_limits(limits, pair)
            if pair not in best or value > best[pair][0]:
                before, after = _trace(left, int(i)), _trace(right, int(j))
                target = len(before)
                choice = {target - 1 - d: c for d, c in enumerate(before)}
                choice |= {target + window + d: c for d, c in enumerate(after)}
                known = {t: c for t, c in choice.items() if c < values}
                factors = {
                    t: tuple(rays[c - values].tolist()) for t, c in choice.items() if c >= values
                }
                best[pair] = value, Attack(
                    (phase - target) % phases, target + window + len(after), target, pair, known,
                    factors,
                )  # fmt: skip
    return best


@dataclass(frozen=True)
class Worst:
    """The largest value attained for a pair of histories, and the attack next to it."""

    value: float
    attack: Attack


def worst(
    law: LoweredLaw, limits: Floats, rng: np.random.Generator, depth: int = 40, window: int = 1,
    opened: int = 4, tries: int = 3, boxes: Sequence[float] = (0.4, 0.15),
) -> dict[Histories, Worst]:  # fmt: skip
    """The largest value that is attained for each pair of histories, each value replayed.

    Attacks of the beam with every width of ``boxes`` and of ``tries`` random ones a pair, improved
    by ascent; the ``opened`` unknown records next to the target are left to a linear program.
    """
    attacks: dict[Histories, list[Attack]] = {}
    for box in boxes:
        for pair, (value, attack) in beam(law, limits, depth, window=window, box=box).items():
            assert abs(replay(law, limits, attack) - value) <= 1e-9 * max(1.0, value)
            attacks.setdefault(pair, []).append(attack)
    for pair, several in attacks.items():
        several += [
            random_attack(rng, law, limits, int(rng.integers(window, 61)), pair)
            for _ in range(tries)
        ]
    best = {}
    for pair, several in attacks.items():
        values = []
        for attack in several:
            better = ascend(law, limits, attack)
            values.append((replay(law, limits, better), better))
        value, attack = max(values, key=lambda each: each[0])
        if opened:
            with suppress(UndertowError):  # coefficients too far apart for the solver
                value = max(value, freed(law, limits, attack, opened))
        best[pair] = Worst(value, attack)
    return best


# --- all patterns of short series -----------------------------------------------------------------


def short_patterns(
    law: LoweredLaw, limits: Floats, records: int
) -> Iterator[tuple[float, int, Pattern]]:
    """Every pattern of a short series at every phase with its best product: (value, phase, it)."""
    rays, values = extreme_factors(limits), len(limits)
    masks = np.eye(values)[:, law.symbols]
    plain_by = np.concatenate([masks, np.ones((len(rays), len(law.symbols)))])
    seen_by = np.concatenate([masks, rays[:, law.symbols]])
    laws = marginals(law)
    for phase, target in itertools.product(range(len(law.kernels)), range(records)):
        logs = []
        for weights in (seen_by, plain_by):
            message = laws[phase]  # (views of the records so far, hidden state)
            for t in range(records):
                if t:
                    message = message @ law.kernel(phase + t - 1)
                shown = masks if t == target else weights
                message = message[..., None, :] * shown
            with np.errstate(divide="ignore"):
                logs.append(np.moveaxis(np.log(message.sum(axis=-1)), target, 0))
        with np.errstate(invalid="ignore"):
            ratios = logs[0] - logs[1]  # (value of the target, views of the others)
        for a, b in itertools.permutations(range(values), 2):
            gain = ratios[a] - ratios[b] + limits[a, b]
            gain = np.where(np.isfinite(gain), gain, -math.inf)
            for axis in range(records - 1):  # known values stand for themselves, factors for one
                fixed, rest = np.split(gain, [values], axis=axis)
                gain = np.concatenate([fixed, rest.max(axis=axis, keepdims=True)], axis=axis)
            others = [t for t in range(records) if t != target]
            for place in itertools.product(range(values + 1), repeat=records - 1):
                if gain[place] > -math.inf:
                    facts = [(t, v) for t, v in zip(others, place, strict=True) if v < values]
                    known = tuple(t for t, _ in facts)
                    case = Pattern((target,), known, tuple(v for _, v in facts), (a,), (b,))
                    yield float(gain[place]), phase, case
