"""More than two states: sides read through the corners of hulls, or bounded from both sides."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from undertow import progress
from undertow.bounds.chains.known import Ints, log, ordered_pairs
from undertow.bounds.series.hulls import LEAST, TINY, MessageHull, contraction, diameters
from undertow.bounds.series.observed import ObservedChain, Option, primitive
from undertow.bounds.series.pairwise import Bounded, Strides
from undertow.bounds.series.rungs import TAIL, Rung, gains
from undertow.errors import EffortSpent
from undertow.numerics import ROUNDOFF, Array, log_ratio, log_sum

__all__ = ["FewStates"]


Messages = MessageHull | Bounded
"""The messages of one option: all that matter, or some of them and bounds on all."""


THINNED = 1e-9
"""Width of a gain from which on reading ever farther would not narrow it (upper side)."""

HISTORY = 2**20
"""Messages of one side that are remembered, for the outputs behind them (cost: about 50 MB); those
beyond are read again."""


class FewStates:
    """A few states: all corners of the hull of messages, one family for each option."""

    longest: int = 512
    mirrored: bool = False
    ended: bool = False
    """Whether the effort ended before enough records on each side were read."""

    def __init__(
        self, observed: ObservedChain, known: bool, most: int, strides: Strides | None = None,
        tails: bool = False,
    ) -> None:  # fmt: skip
        """Prepare; ``known`` says whether known records are asked for, or a bound on the rest.

        With ``tails`` only the bound on the rest: where the chain forgets, it takes no families
        of known records. At most about ``most`` messages are carried for each option. With
        ``strides`` they are bounded pair by pair instead of by hulls.
        """
        self.observed, self.known, self.most, self.strides = observed, known, most, strides
        self.tails = tails
        self.history: dict[tuple[int, int | None], list[Messages]] = {}
        if strides is not None:
            self.longest = 64
        self.value, self.other = ordered_pairs(observed.size)
        entries = np.concatenate([observed.chain.transition.ravel(), observed.channels.ravel()])
        self.lost = bool(entries[entries > 0].min() < LEAST)
        if not primitive(observed.chain):
            self.longest = min(self.longest, 64)  # nothing merges, however far one reads

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, 1, D)."""
        channels = self.observed.channels
        ratio = log_ratio(channels[:, self.value], channels[:, self.other])  # (n, D, m)
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        at = targets if len(channels) > 1 else np.zeros(len(targets), dtype=np.int64)
        return ratio.max(axis=2)[at][:, None], ratio.argmax(axis=2)[at][:, None]

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return what the laws of the first records say, (records, D), and errors (records,)."""
        chain = self.observed.chain
        law = log(chain.initial)
        found = np.empty((records, len(self.value)))
        for record in range(records):
            if record:
                law = log_sum(law[:, None] + log(chain.step(record - 1)), axis=0)  # (k,)
                law = law - law.max()
            with np.errstate(invalid="ignore"):
                found[record] = law[self.value] - law[self.other]  # (D,)
            same = record and np.array_equal(found[record], found[record - 1], equal_nan=True)
            if chain.homogeneous and same:
                found[record:] = found[record]
                break
        size = self.observed.size + float(np.abs(found[np.isfinite(found)]).max(initial=1.0))
        steps = np.arange(1.0, records + 1)
        shrink = contraction(chain.transition.T) if chain.homogeneous else 1.0
        steps = np.minimum(steps, 1 / (1 - shrink)) if shrink < 1 else steps
        return found, 40.0 * size * steps * ROUNDOFF

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled.

        A side may take half the effort that is left, and is read as far as that suffices.
        """
        kernel, channel = self.observed.kernel(1, side), self.observed.channel(0)
        shrink, size = contraction(kernel), self.observed.size
        far = self.observed.chain.initial if side < 0 else np.ones(size)
        rest = diameters(kernel, channel, most) if self.tails and self.known else np.zeros(0)
        if (
            rest.size and rest[-1] > TAIL / 2
        ):  # the chain forgets too slowly for that: families tell sooner
            rest = np.zeros(0)
        asked = self.known and not rest.size
        families = [self._single(kernel[:, v]) for v in range(size if asked else 0)]
        free = self._single(far)
        plain = np.eye(size + 1)[:size]  # (state, columns)
        plain[:, size] = far
        rows: list[Rung] = []
        history: dict[tuple[int, int | None], list[Messages]] = {(side, None): [free]}
        check, kept = 8, 0
        half = progress.left() / 2
        for step in range(1, most + 1):
            before = progress.spent()
            try:
                with progress.allowing(half):
                    if step > 1:
                        families = [family.step(kernel, channel, shrink) for family in families]
                    free = free.step(kernel, channel, shrink)
            except EffortSpent:
                if not rows:
                    raise
                self.ended = True
                break
            half -= progress.spent() - before
            for value, family in zip((None, *range(size)), (free, *families), strict=False):
                history.setdefault((side, value), []).append(family.bare())
                kept += family.count
            if kept <= HISTORY:
                self.history |= history
            # columns: the messages without outputs of a known v at this distance, and of the far
            # law
            plain = _level(kernel @ plain)
            rows.append(self._rung(families, free, plain, step, size, rest[step - 1 : step]))
            if step == check and self.known:
                if rest.size and self._drowned(rows[-1], rest[step - 1], side):
                    break
                if rest[step - 1 : step].sum() <= TAIL / 16 and settled(_stacked(rows)):
                    break
                check += max(4, check // 8)
        return _stacked(rows)

    def _drowned(self, rung: Rung, rest: float, side: int) -> bool:
        """Return whether what lies beyond is small beside what thinned out hulls cost already."""
        given = side < 0 and not isinstance(self.observed.chain.start, str)
        if given or self.strides is not None or not np.isfinite(rung.free_upper).all():
            return False
        gap = float((rung.free_upper - rung.free).max())
        return gap > THINNED and rest <= gap / 64

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance.

        The families of a distance are those of the neighbours at one less, moved one step.
        """
        observed, size = self.observed, self.observed.size
        length = observed.length or 2
        shrinks = {
            record: contraction(observed.kernel(record, side)) for record in self._inner(side)
        }
        free, plain_free = self._open(side, shrinks)
        families: dict[int, list[Messages]] = {}
        plain: dict[int, Array] = {}
        for step in range(1, most + 1):
            before, old = families, plain
            families, plain = {}, {}
            for record in self._needed(side, targets, most - step):
                outer = record + side * step
                if not 0 <= outer < length:
                    continue
                kernel = observed.kernel(record, side)
                plain[record] = _level(kernel if step == 1 else kernel @ old[record + side])
                if not self.known:
                    continue
                if step == 1:
                    families[record] = [self._single(kernel[:, v]) for v in range(size)]
                    continue
                channel = observed.channel(record + side)
                families[record] = [
                    family.step(kernel, channel, shrinks[record])
                    for family in before[record + side]
                ]
            yield _stacked([
                self._row(families, plain, free, plain_free, int(target), side, step)
                for target in targets
            ])  # fmt: skip

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side, by record."""
        if not option.distance:
            return {}
        read = self._remembered(side, option) or self._read(target, side, option)
        inner = range(target, target + side * (len(read) - 1), side)
        place = read[-1].best(int(self.value[pair]), int(self.other[pair]))
        shown: dict[int, int] = {}
        for record, family in zip(inner, reversed(read), strict=False):
            place, shown[record + side] = family.source(place)
        return shown

    def _remembered(self, side: int, option: Option) -> list[Messages]:
        """Return the messages of an option as `table` found them, none where it did not."""
        given = not isinstance(self.observed.chain.start, str)
        steps = option.distance + (option.value is None)  # an open side begins with its end
        read = self.history.get((side, option.value), [])
        return [] if len(read) < steps or (side < 0 and given) else read[:steps]

    def _read(self, target: int, side: int, option: Option) -> list[Messages]:
        """Return the messages of an option, from its far end to the target."""
        observed, far = self.observed, target + side * option.distance
        message = np.ones(observed.size) if side > 0 else observed.chain.law(far)
        if option.value is not None:  # the known record is read already, through its column
            far -= side
            message = observed.kernel(far, side)[:, option.value]
        read = [self._single(message)]
        for record in range(far - side, target - side, -side):
            kernel = observed.kernel(record, side)
            read.append(read[-1].step(kernel, observed.channel(record + side), 1.0))
        return read

    def _single(self, message: Array) -> Messages:
        if self.strides is None:
            return MessageHull.single(message, self.most)
        return Bounded.single(message, self.strides)

    def _inner(self, side: int) -> range:
        length = self.observed.length or 2
        return range(length - 1) if side > 0 else range(1, length)

    def _needed(self, side: int, targets: Ints, more: int) -> list[int]:
        """Return the records whose families some target will need."""
        records = {int(t) + side * back for t in targets for back in range(more + 1)}
        return sorted(record for record in records if 0 <= record < (self.observed.length or 2))

    def _open(
        self, side: int, shrinks: dict[int, float]
    ) -> tuple[dict[int, Messages], dict[int, Array]]:
        """Return the families of open sides, to the end of the series, and their laws."""
        observed = self.observed
        length = observed.length or 2
        record = length - 1 if side > 0 else 0
        law = np.ones(observed.size) if side > 0 else observed.chain.initial
        found, laws = {record: self._single(law)}, {record: law}
        for inner in range(record - side, length if side < 0 else -1, -side):
            kernel = observed.kernel(inner, side)
            found[inner] = found[inner + side].step(
                kernel, observed.channel(inner + side), shrinks[inner]
            )
            law = _level(kernel @ law)
            laws[inner] = law
        return found, laws

    def _row(
        self, families: dict[int, list[Messages]], plain: dict[int, Array],
        free: dict[int, Messages], laws: dict[int, Array], target: int, side: int, step: int,
    ) -> Rung:  # fmt: skip
        """Return the rung of one target; an open side counts only once it is complete."""
        size, length = self.observed.size, self.observed.length or 2
        table = np.zeros((size, size + 1))  # (state, columns)
        table[:, :size] = plain.get(target, 0.0)
        table[:, size] = laws[target]
        room = target if side < 0 else length - 1 - target
        rung = self._rung(families.get(target, []), free[target], table, step, size, np.zeros(0))
        if room == step:
            return rung
        never = np.full_like(rung.free, -np.inf)
        return replace(rung, free=never, free_upper=never)

    def _rung(
        self, families: list[Messages], free: Messages, plain: Array, step: int, size: int,
        rest: Array,
    ) -> Rung:  # fmt: skip
        """Return the rung of one target from its families and from messages without outputs.

        ``rest``, where it has an entry, is how much what lies beyond can differ.
        """
        pairs = len(self.value)
        said = log_ratio(plain[self.value], plain[self.other])  # (D, columns); NaN for 0/0
        if families:
            read = [family.ratios(self.value, self.other) for family in families]
            known, upper = (np.stack(part, axis=1) for part in zip(*read, strict=True))  # (D, V)
        else:  # not asked for: nothing is found, and nothing is bounded
            known, upper = np.full((pairs, size), -np.inf), np.full((pairs, size), np.inf)
        message, most = free.ratios(self.value, self.other)  # (D,)
        sizes = np.concatenate([known.ravel(), message, said.ravel()])
        large = float(np.abs(sizes[np.isfinite(sizes)]).max(initial=0.0))
        slack = (4 * (step + 2) * (size + 4) + 32 * (1 + large)) * ROUNDOFF
        rung = gains(
            (known[None, None], upper[None, None]), (message[None, None], most[None, None]),
            said[None, :, :size], said[None, :, size], np.array([slack]),
        )  # fmt: skip
        if rest.size:  # a message from beyond, read through the same outputs, differs by no more
            beyond = (most + slack + rest) * (1 + 4 * ROUNDOFF)  # (D,)
            beyond = np.where(np.isnan(beyond) | np.isinf(beyond), np.inf, beyond)
            rung = replace(rung, top=beyond[None, None])
        if not self.lost and plain[plain > 0].min(initial=1.0) >= TINY:
            return rung
        return replace(  # an entry may have underflowed: nothing is certified
            rung,
            known_upper=np.full_like(rung.known, np.inf),
            free_upper=np.full_like(rung.free, np.inf),
            top=np.full_like(rung.top, np.inf),
        )


def _level(columns: Array) -> Array:
    """Return columns with 1 as largest entry, or 0 throughout."""
    peak = columns.max(axis=0)
    return np.asarray(columns / np.where(peak > 0, peak, 1.0))


def _stacked(rows: list[Rung]) -> Rung:
    """Return several rungs of one row each as one."""
    names = ("known", "known_upper", "free", "free_upper", "top", "base", "law")
    return Rung(*(np.concatenate([getattr(row, name) for row in rows]) for name in names))
