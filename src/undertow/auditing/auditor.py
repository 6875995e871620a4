"""An audit of a plan: attacks on its own release code, to see whether one breaks the guarantee."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from undertow.auditing.blackbox import BlackBox, release_code
from undertow.auditing.scenarios import MOST_ATTACKS, attacks, drawn_models
from undertow.auditing.screening import BLOCK, screen
from undertow.auditing.statistical import (
    NO_BLANKS,
    Blanks,
    Choice,
    Confirmation,
    Event,
    LabelEvent,
    Labels,
    choose_event,
    choose_labels,
    try_event,
)
from undertow.auditing.suspicions import suspicions
from undertow.auditing.trials import Trial, prepare
from undertow.certificate import Witness
from undertow.curves import check_delta
from undertow.deprecations import renamed, warn
from undertow.errors import InvalidInput, NothingToProtect
from undertow.numerics import Array, check_count, check_number, check_positive
from undertow.plan import Plan
from undertow.reporting.words import record_ends
from undertow.rounding import above, below, odds

__all__ = ["BLIND", "DRAWS", "Audit", "audit"]

DRAWS = 50_000
"""Series drawn for each value of the target, unless told otherwise."""

BLIND = (
    "three or more records, or answers, that matter only together",
    "noise that returns after more answers than a screening compares, or in no fixed order",
    f"pairs of records more than {BLOCK} apart, except between the two ends",
    "code that answers rarely, on some data only, or under an audit, in another way",
    "secrets in the last digits of real numbers, in running times, and in what is not an answer",
    "events rarer than about 200 in the draws, and data that the plan's model does not describe",
)
"""What an audit cannot see."""

LEAST_DRAWS = 1000
"""Fewer draws could refute nothing but a plan without noise."""

_MOST_DRAWS = 10**9
"""Draws that anybody waits for (cost)."""

_SCREENED = 2500
_FINALISTS = 2
_RECORDS = 2**21
_AT_ONCE = 500
"""Draws that every attack gets, attacks that go on, and the size of a batch: about so many records,
and not fewer series than that."""

Progress = Callable[[int, int], object]
"""Told how many series of how many have been answered."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What attacks on a plan's release code found.

    ``lower`` is a lower bound on the leakage: with probability ``confidence`` or more the
    leakage is at least that, whatever the code does. ``verdict`` is ``"refuted"`` if it exceeds
    the ``limit``. A plan that is ``"consistent"`` is not proved: its certificate is what proves
    it. ``attack`` is the one that was tested, on ``draws`` series whose value a coin chose; its
    event happened in ``hits`` of those with ``attack.value``, in ``other_hits`` of the others.
    With a ``delta`` both ``lower`` and ``limit`` are leakages at that delta, and ``blanks``
    draws count against the event for it. So many ``releases`` were attacked together.
    ``cannot_see`` lists what no audit looks at.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.2, .8]], length=20)
    >>> audit(calibrate(Count(1), chain, limit=1.0), 2000, seed=1).refuted
    False
    """

    verdict: Literal["refuted", "consistent"]
    lower: float
    limit: float
    confidence: float
    attack: Witness
    event: str
    hits: int
    other_hits: int
    draws: int
    attacks: int
    series: int
    randomness: str
    delta: float = 0.0
    blanks: int = 0
    releases: int = 1

    @property
    def cannot_see(self) -> tuple[str, ...]:
        """What an audit cannot see: a consistent one says nothing about it."""
        return BLIND

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is broken, at the confidence asked for."""
        return self.verdict == "refuted"

    @property
    def promise(self) -> float:
        """What ``limit`` was called."""
        warn("audit.promise", "audit.limit")
        return self.limit

    def words(self) -> str:
        """Return the verdict in one sentence."""
        sure = f"with {100 * self.confidence:g}% confidence"
        at, said = self.at_delta(), self.limit_words()
        if self.refuted:
            factor = f" (a factor {below(math.exp(self.lower), 3)} in the odds)"
            return (
                f"refuted: {sure} the leakage{at} is at least {below(self.lower, 4)}"
                f"{'' if self.delta else factor}, and at most {said} was guaranteed"
            )
        return (
            f"consistent with the guarantee of {said}: the best of {self.attacks} "
            f"attacks shows, {sure}, a leakage{at} of at least {below(self.lower, 4)}"
        )

    def at_delta(self) -> str:
        """Return at which delta leakages are meant, nothing where there is none."""
        return f" at delta {self.delta}" if self.delta else ""

    def limit_words(self) -> str:
        """Return the leakage that was guaranteed; with a delta, what that means for odds."""
        if not self.delta:
            return above(self.limit)
        return (
            f"{above(self.limit)}{self.at_delta()} (odds that move by more than a factor "
            f"{odds(self.limit + math.log(2))} with probability at most {2 * self.delta})"
        )

    def attack_words(self) -> str:
        """Return the attack that was tested, in one line."""
        attack = self.attack
        several = f"{self.releases} releases together, " if self.releases > 1 else ""
        known = ", ".join(
            f"record{'s' * (' to ' in ends)} {ends} = {value!r}"
            for ends, value in record_ends(attack.known)
        )
        return (
            f"{several}target {attack.place()}, "
            f"{known + ' known' if known else 'nothing known'}: "
            f"{attack.value!r} against {attack.other!r}"
        )

    def __str__(self) -> str:
        """Return the verdict and what it rests on."""
        return (
            f"{self.words()}\nattack: {self.attack_words()}\nevent: {self.event}; of "
            f"{self.draws:,} series (half of each value) in {self.hits:,} with "
            f"{self.attack.value!r} and in {self.other_hits:,} with {self.attack.other!r}"
            f"{f'; in {self.blanks:,} blank draws, for delta' if self.delta else ''}"
            f"{'' if self.refuted else f'{chr(10)}cannot be seen: ' + '; '.join(self.cannot_see)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return found | {"attack": self.attack.to_dict(), "cannot_see": list(self.cannot_see)}


@renamed(promise="limit")
def audit(
    plan: "Plan[Any]",
    draws: int = DRAWS,
    *,
    seed: int | None = None,
    mechanism: BlackBox | None = None,
    confidence: float = 0.95,
    limit: float | None = None,
    delta: float | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Return what attacks on the release code of a plan find: refuted, or consistent.

    First the code is screened: which records weigh more than others, which share noise with each
    other, and which answers do; attacks on them join the plan's own. Series are then drawn from
    the plan's model given the target's value and the attacker's
    knowledge, the code is run on them, and an event of its answers is counted. One half of the
    draws chooses attack and event, the other half tests them with an exact interval; then the
    halves change roles, and the better of the two bounds is returned, both at half the error. So
    it holds for any code with the confidence stated: a plan that keeps its guarantee is refuted in
    at most 5 of 100 audits. A plan for several releases is attacked with as many answers about each
    series.

    Parameters
    ----------
    plan
        What was guaranteed, about which records, to whom.
    draws
        Series of each attack for each of the two values (on average: a coin chooses), in both
        halves together. A leakage of epsilon takes some 1,000 e^epsilon of them or more.
    seed
        Makes the audit repeatable; then discrete noise does not come from the secure sampler of a
        release but from a seeded one. None audits the code of a release itself.
    mechanism
        The code on trial, by default that of a release of the plan: a function of an array of
        series (a row each; numbers of states in the order of ``plan.states``, or real values) that
        returns the released numbers, or the numbers of the outputs (``len(plan.states)`` where a
        record is erased), a row for each series. Flipped series come without the records that do
        not matter to the attack; a screening asks about series whose records are independent, and
        about one series many times. Each row must be answered by itself, with noise of its own:
        code that shares noise between rows, or between calls, is attacked for that.
    confidence
        Of the bound and the verdict.
    limit
        The leakage to refute, by default the smaller one of ``plan.limit`` and what the plan's
        certificate says.
    delta
        The delta at which that is to be refuted, by default the plan's. Then what is tested is
        Pr[S | x] <= e^epsilon Pr[S | x'] + delta, and ``lower`` bounds that epsilon.
    progress
        Is told how many series of how many have been answered.

    >>> from undertow import Count, DiscreteLaplace, Leakage, MarkovChain, Plan
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=60)
    >>> claimed = Leakage(1.0, 1.0, "informed", "any")
    >>> plain = Plan(DiscreteLaplace(Count(1), 1.0), chain, 1.0, claimed, "laplace")
    >>> audit(plain, 2000, seed=1).verdict
    'refuted'
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    draws = check_count(draws, "draws", LEAST_DRAWS, _MOST_DRAWS)
    confidence = check_number(confidence, "confidence")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, found {confidence}")
    claimed = min(plan.limit, plan.leakage.upper)
    guaranteed = claimed if limit is None else check_positive(limit, "limit")
    allowed = plan.delta if delta is None else check_delta(delta)
    if seed is not None:
        seed = check_count(seed, "seed", 0)
    noise, data, screened = np.random.SeedSequence(seed).spawn(3)
    trials = _trials(plan, mechanism, None if seed is None else noise)
    if not trials:
        raise NothingToProtect(
            "no two values of a record are both possible under the plan's model, given what the "
            "attacker may know: there is nothing to tell apart"
        )
    more, series = _suspected(plan, mechanism, seed is not None, screened, _few(draws // 2))
    trials += more
    generator = np.random.Generator(np.random.SFC64(data))
    halves = _Halves(trials, draws // 2, allowed, generator, progress, series)
    error = (1 - confidence) / 2  # two tests, either of which may refute
    chosen = [_chosen(halves, half, error, plan.leakage.witness, guaranteed) for half in (0, 1)]
    tested = [
        (halves.tested(1 - half, place, choice.event, error), place, choice.event)
        for half, (place, choice) in enumerate(chosen)
    ]
    test, place, event = max(tested, key=lambda item: item[0].lower)
    found = trials[place]
    randomness = "secure" if seed is None else f"insecure, seed {seed}"
    if mechanism is not None:
        randomness = "that of the mechanism given"
    return Audit(
        "refuted" if test.lower > guaranteed else "consistent",
        test.lower, guaranteed, confidence, found.attack, found.describe(event),
        test.hits, test.other_hits, test.draws, len(trials), halves.done, randomness,
        allowed, test.blanks, plan.releases if plan.task == "answer" else 1,
    )  # fmt: skip


def _trials(
    plan: "Plan[Any]", mechanism: BlackBox | None, seed: np.random.SeedSequence | None
) -> list[Trial]:
    """Return the attacks that can be tried, the plan's witness first."""
    trials: list[Trial] = []
    found = drawn_models(plan)
    seeds = [None] * len(found) if seed is None else seed.spawn(len(found))
    for drawn, own in zip(found, seeds, strict=True):
        box = mechanism or release_code(plan, drawn.model.states, own)
        for attack in attacks(plan, drawn, MOST_ATTACKS // len(found)):
            with suppress(InvalidInput):  # values that cannot occur together under the model
                trials.append(prepare(plan, drawn, attack, box))
    return trials


def _suspected(
    plan: "Plan[Any]", mechanism: BlackBox | None, seeded: bool, seed: np.random.SeedSequence,
    draws: int,
) -> tuple[list[Trial], int]:  # fmt: skip
    """Return the attacks on what a screening names, and how many series it was answered.

    A set of models is screened on the first of them: which record weighs more, and which noise is
    shared, is a matter of the code.
    """
    drawn = drawn_models(plan)[0]
    own, data = seed.spawn(2)
    box = mechanism or release_code(plan, drawn.model.states, own if seeded else None)
    suspects = screen(plan, drawn, box, draws, np.random.default_rng(data))
    trials: list[Trial] = []
    for attack, focus in suspicions(plan, drawn, suspects):
        with suppress(InvalidInput):  # values that cannot occur together under the model
            trials.append(prepare(plan, drawn, attack, box, focus))
    return trials, suspects.series


@dataclass(slots=True)
class _Seen:
    """The draws of one attack in one half, batch by batch, by value; and the blank ones."""

    scores: tuple[list[Array], list[Array]]  # batches (draws, scores)
    labels: tuple[list[Labels], list[Labels]]  # batches (draws, labels)
    levels: list[Array]  # of the blank draws, those below delta
    had: int = 0

    def parts(self, event: Event) -> tuple[Any, Any]:
        """Return what an event looks at, under both values."""
        kind = self.labels if isinstance(event, LabelEvent) else self.scores
        return np.concatenate(kind[0]), np.concatenate(kind[1])


class _Halves:
    """The draws of both halves, attack by attack: few of all, many of the promising ones."""

    def __init__(
        self, trials: list[Trial], draws: int, delta: float, generator: np.random.Generator,
        progress: Progress | None, screened: int,
    ) -> None:  # fmt: skip
        self.trials, self.draws, self.delta = trials, draws, delta
        self._generator, self._progress = generator, progress
        self._seen: dict[tuple[int, int], _Seen] = {}
        self.few = _few(draws)
        self.done = screened
        self._total = screened + 2 * 2 * (self.few * len(trials) + _FINALISTS * draws)

    def chosen(self, half: int, place: int, draws: int, error: float) -> Choice:
        """Return the most promising event of an attack in a half."""
        seen = self._drawn(half, place, draws)
        best = choose_event(
            np.concatenate(seen.scores[0]), np.concatenate(seen.scores[1]), error,
            delta=self.delta,
        )  # fmt: skip
        other = choose_labels(
            np.concatenate(seen.labels[0]), np.concatenate(seen.labels[1]), error,
            delta=self.delta,
        )  # fmt: skip
        return best if other is None or other.guess <= best.guess else other

    def tested(self, half: int, place: int, event: Event, error: float) -> Confirmation:
        """Return what all draws of a half say about an event of an attack."""
        seen = self._drawn(half, place, self.draws)
        blanks = Blanks(self.delta, np.concatenate(seen.levels)) if self.delta else NO_BLANKS
        return try_event(event, *seen.parts(event), error, blanks)

    def _drawn(self, half: int, place: int, draws: int) -> _Seen:
        """Return the draws of an attack in a half, so many for each value, drawn as needed."""
        seen = self._seen.setdefault((half, place), _Seen(([], []), ([], []), []))
        values = 3 if self.delta else 2  # the third one is blank
        missing = values * draws - seen.had
        if missing > 0:  # a coin chooses the value of each series
            first = int(self._generator.binomial(missing, 1 / values))
            rest = missing - first
            second = int(self._generator.binomial(rest, 0.5)) if self.delta else rest
            for value, size in enumerate((first, second)):
                self._answered(self.trials[place], value, size, seen)
            if self.delta:
                below = int(self._generator.binomial(rest - second, self.delta))
                seen.levels.append(self.delta * self._generator.random(below))
            seen.had += missing
        return seen

    def _answered(self, trial: Trial, value: int, draws: int, seen: _Seen) -> None:
        for size in _batches(draws, trial.length):
            series = trial.draws[value](size, self._generator)  # (draws, records)
            answers = trial.answers(series)
            seen.scores[value].append(trial.score(answers))  # (draws, scores)
            seen.labels[value].append(trial.labelled.label(answers))  # (draws, labels)
            self.done += size
            if self._progress is not None:
                self._progress(self.done, max(self._total, self.done))


def _few(draws: int) -> int:
    """Return the draws of a half that every attack gets."""
    return min(draws, max(_SCREENED, draws // 8))


def _batches(draws: int, length: int) -> Iterator[int]:
    most = max(_RECORDS // length, _AT_ONCE)
    while draws > 0:
        yield min(draws, most)
        draws -= most


def _chosen(
    halves: _Halves, half: int, error: float, witness: Witness | None, limit: float
) -> tuple[int, Choice]:
    """Return the most promising attack, by its place, and its event, seen on one half only.

    All attacks get some draws; the best of them, and the plan's own witness, get them all. Attacks
    on shared noise that promise to refute the limit come before all others, those on rows of one
    call first: where answers share noise, what the others promise in one half is chance.
    """

    def choices(places: list[int], draws: int) -> dict[int, Choice]:
        return {place: halves.chosen(half, place, draws, error) for place in places}

    def rank(place: int) -> tuple[int, float]:
        repeat, guess = halves.trials[place].focus.repeat, found[place].guess
        return (2 if repeat is None or guess <= limit else int(repeat.calls)), -guess

    found = choices(list(range(len(halves.trials))), halves.few)
    order = sorted(found, key=rank)
    if halves.few < halves.draws:
        kept = dict.fromkeys([*order[:_FINALISTS], *([0] if witness is not None else [])])
        found = choices(list(kept), halves.draws)
        order = sorted(found, key=rank)
    return order[0], found[order[0]]
