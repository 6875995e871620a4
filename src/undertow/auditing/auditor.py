"""Audits of plans: statistical attacks on the release code, to refute its guarantee."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import islice, zip_longest
from typing import Any, Literal

import numpy as np

from undertow.adversaries import Adversary
from undertow.auditing.blackbox import (
    Batch,
    BlackBox,
    alone,
    beside,
    checked,
    release_code,
    together,
)
from undertow.auditing.inference import hidden
from undertow.auditing.scenarios import (
    MOST_ATTACKS,
    ChainSource,
    Draw,
    DrawnModel,
    GaussianSource,
    NetworkSource,
    SeriesSource,
    attacks,
    drawn_models,
    secret_pairs,
    secret_targets,
)
from undertow.auditing.scores import (
    Blur,
    Labelled,
    Score,
    answer_score,
    call_labels,
    call_score,
    count_middle,
    count_score,
    laplace_blur,
    normal_blur,
    number_labels,
    of_mean,
    output_labels,
    pair_labels,
    series_score,
    table_blur,
)
from undertow.auditing.screening import BLOCK, Repeat, Suspects, screen
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
from undertow.certificate import Witness
from undertow.curves import check_delta
from undertow.errors import InvalidInput, NothingToProtect, NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.networks import BayesianNetwork
from undertow.numerics import Array, Seed, check_count, check_number, check_positive
from undertow.plan import Plan, check_plan
from undertow.queries import AnyQuery
from undertow.reporting.words import record_ends
from undertow.rounding import above, below, odds

__all__ = [
    "BLIND",
    "DRAWS",
    "PLAIN",
    "REACH",
    "Audit",
    "Focus",
    "Trial",
    "audit",
    "prepare",
    "source_of",
    "suspected_attacks",
]


REACH = 16
"""Records of a flipped series that are looked at on a side where nothing is known."""


@dataclass(frozen=True, slots=True)
class Focus:
    """Observations of an attack beside the answer about the target.

    ``whole`` series are given to the code, all records of them; the output of a ``partner`` is
    looked at together with the target's; ``repeat`` says which other answer, about a known series,
    may have the same noise; ``alone`` answers each series in a call of its own.

    >>> Focus(partner=3).partner
    3
    """

    whole: bool = False
    partner: int | None = None
    repeat: Repeat | None = None
    alone: bool = False


PLAIN = Focus()
"""The answer about the target, and nothing else."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An attack with the two laws of the data, the audited code and the score of its answers."""

    attack: Witness
    length: int
    draws: tuple[Draw, Draw]
    mechanism: BlackBox
    outputs: int | None
    score: Score
    scored: str
    labelled: Labelled
    number: str = "the released number"
    focus: Focus = PLAIN
    names: tuple[str, ...] = ()

    def answers(self, series: Batch) -> Batch:
        """Return the answers of the code, one or more for each series."""

        def run(rows: Batch) -> Batch:
            return checked(self.mechanism(rows), rows, self.outputs)

        if self.focus.alone:
            return alone(run)(series)
        if self.focus.repeat is not None:
            other, repeat = self.known_series(), self.focus.repeat
            return beside(run, other, repeat.lag, calls=repeat.calls)(series)
        return run(series)

    def known_series(self) -> Batch:
        """Return the series of the answers that stand beside, which the attacker knows."""
        return np.asarray(self.draws[0](1, np.random.default_rng(0))[0])

    def describe(self, event: Event) -> str:
        """Return an event in words."""
        if isinstance(event, LabelEvent):
            return self.labelled.words(event.score, event.labels)
        name = self.scored if event.score == 0 else self.number
        if event.score > 1:
            name = f"score {event.score} of the released numbers"
        if self.names:
            name = self.names[event.score]
        return f"{name} at {'least' if event.above else 'most'} {event.threshold:.6g}"


def prepare(
    plan: "Plan[Any]", drawn: DrawnModel, attack: Witness, mechanism: BlackBox,
    focus: Focus = PLAIN,
) -> Trial:  # fmt: skip
    """Prepare an attack on a drawn model; refuse values that cannot occur together.

    Several releases are attacked together, as answers about the same series; answers that may
    share noise with those about another series one by one.
    """
    fixed = drawn.fixed(attack, attack.value), drawn.fixed(attack, attack.other)
    if plan.task != "answer":
        return _local(plan, drawn, attack, mechanism, fixed, focus)
    source, query = source_of(drawn), plan.noise.query
    if focus.repeat is not None:
        numbers, where = query.numbers(drawn.model.states), focus.repeat.words()
        each = ["the released number" if numbers == 1 else f"number {n}" for n in range(numbers)]
        names = tuple(
            f"{number} {sign} that in {where} ({side})"
            for sign in ("less", "plus")
            for side in ("before", "after")
            for number in each
        )
        return Trial(
            attack, source.length, (source.given(fixed[0]), source.given(fixed[1])), mechanism,
            None, call_score(numbers), "",
            call_labels(*_lattice(query, source.length), numbers, where),
            focus=focus, names=names,
        )  # fmt: skip
    score: Score = answer_score
    several = plan.releases > 1
    scored = number = "the mean of all releases" if several else "the released number"
    middles = (0,) * query.numbers(drawn.model.states)
    if isinstance(source, ChainSource) and query.bins(source.chain.states):
        states = source.chain.states
        # (counts, states)
        bins = np.array([[state in some for state in states] for some in query.bins(states)])
        score = count_score(source, fixed, bins, _blur(plan))
        scored = f"the log-likelihood ratio of {number if several else 'the answer'}"
        middles = tuple(count_middle(source, fixed[0], row) for row in bins)
    draws = source.given(fixed[0]), source.given(fixed[1])
    return Trial(
        attack, source.length, draws, together(mechanism, plan.releases), None,
        of_mean(score, plan.releases), scored,
        number_labels(*_lattice(query, source.length), middles), number, focus,
    )  # fmt: skip


def _lattice(query: AnyQuery, length: int) -> tuple[float, float]:
    """Return the lowest answer and the step of its lattice; 0 and 1 if it has none."""
    if query.integral:
        return 0.0, 1.0
    try:
        query.lattice()
    except NotSupported:  # only code of one's own can answer it
        return 0.0, 1.0
    base = query.answer(0, length)
    return float(base), float(query.answer(1, length) - base)


def _blur(plan: "Plan[Any]") -> Blur:
    """Return the noise of the mean of all releases."""
    noise, releases = plan.noise, plan.releases
    if releases > 1:
        return normal_blur(math.sqrt(noise.variance() / releases))
    if isinstance(noise, TabulatedNoise):
        return table_blur(noise)
    return laplace_blur(noise.amount) if noise.measure == "scale" else normal_blur(noise.amount)


def source_of(drawn: DrawnModel) -> SeriesSource:
    """Return the source of series of a drawn model.

    >>> from undertow import MarkovChain
    >>> source_of(DrawnModel(MarkovChain([[.9, .1], [.1, .9]]), 9)).length
    9
    """
    if isinstance(drawn.model, MultivariateGaussian):
        return GaussianSource(drawn.model)
    if isinstance(drawn.model, BayesianNetwork):
        return NetworkSource(drawn.model, drawn.order)
    return ChainSource(drawn.model, drawn.length)


def _local(
    plan: "Plan[Any]", drawn: DrawnModel, attack: Witness, box: BlackBox,
    fixed: tuple[dict[int, Any], dict[int, Any]], focus: Focus,
) -> Trial:  # fmt: skip
    """Return an attack on a series that is shown record by record."""
    chain, mechanism = drawn.model, plan.mechanism
    if chain.lowered() is None:
        raise NotSupported(
            f"a series is audited on a Markov chain, and the plan's model is a "
            f"{type(chain).__name__}; audit a plan for a MarkovChain"
        )
    first, last = _window(plan, drawn, attack)
    redacted = plan.task == "redact"
    # erasures go by place, so they need the whole series; flips do not
    whole = redacted or focus.whole
    begin, length = (0, drawn.length) if whole else (first, last - first + 1)
    source = ChainSource(chain, length, begin)
    # records of the drawn part are counted from its first
    inside = [{r - begin: v for r, v in some.items() if 0 <= r - begin < length} for some in fixed]
    known = {record: chain.index(state) for record, state in attack.known}
    pair = chain.index(attack.value), chain.index(attack.other)
    window = range(first, last + 1)
    ratio = series_score(hidden(mechanism, chain), window, known, attack.target, pair)

    def score(outputs: Any) -> Any:
        return ratio(outputs[:, first - begin : last - begin + 1])

    outputs = len(mechanism.names(chain.states)) + redacted
    labelled = pair_labels(attack.target - first, len(window), outputs)
    if focus.repeat is not None:
        labelled = output_labels(attack.target, length, outputs, focus.repeat.words())
    elif focus.partner is not None:
        labelled = pair_labels(attack.target, length, outputs, focus.partner)

    def label(shown: Any) -> Any:
        return labelled.label(shown[:, first - begin : last - begin + 1])

    return Trial(
        attack, length, (source.given(inside[0]), source.given(inside[1])), box,
        outputs, score, "the log-likelihood ratio of the series",
        labelled if focus.whole else Labelled(label, labelled.columns), focus=focus,
    )  # fmt: skip


def _window(plan: "Plan[Any]", drawn: DrawnModel, attack: Witness) -> tuple[int, int]:
    """Return the window of records to score: up to the nearest known or never erased ones."""
    edges = {record for record, _ in attack.known}
    reach = REACH
    if plan.task == "redact":
        edges |= set(np.flatnonzero(~plan.mechanism.probabilities.any(axis=1)).tolist())
        reach = drawn.length
    left = [record for record in edges if record < attack.target]
    right = [record for record in edges if record > attack.target]
    first = max(left, default=max(attack.target - reach, 0))
    last = min(right, default=min(attack.target + reach, drawn.length - 1))
    if drawn.longer:  # a record that is known does not part what is beyond it from the target
        first = min(first, max(attack.target - reach, 0))
        last = max(last, min(attack.target + reach, drawn.length - 1))
    return first, last


_MOST_PER_RECORD = 8
"""Most attacks on a record, or on a record and its partner."""

_MOST_PER_REPEAT = 2
"""Most attacks on a distance between calls."""

_MOST_KNOWN_STATES = 3
"""Most states tried for known records."""


def suspected_attacks(
    plan: "Plan[Any]", drawn: DrawnModel, suspects: Suspects
) -> Iterator[tuple[Witness, Focus]]:
    """Yield attacks on the records, pairs and distances that a screening reports.

    >>> from undertow import Count, Laplace, MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=9)
    >>> plan = Plan(Laplace(Count(1), 4.0), chain, 1.0, Leakage(1, 1, "exact", "ignorant"), "exact")
    >>> attacks = suspected_attacks(plan, DrawnModel(chain, 9), Suspects(records=(3,)))
    >>> [attack.words() for attack, _ in attacks]
    ['target record 3 of 9, nothing known: 0 against 1']
    """
    for record in suspects.records:
        for attack in islice(_attacks(plan, drawn, record, None), _MOST_PER_RECORD):
            yield attack, Focus(whole=True)
    for pair in suspects.pairs:
        for target, partner in (pair, pair[::-1]):
            for attack in islice(_attacks(plan, drawn, target, partner), _MOST_PER_RECORD):
                yield attack, Focus(whole=True, partner=partner)
    target = secret_targets(plan, drawn)[0]
    for repeat in suspects.repeats:
        for attack in islice(_attacks(plan, drawn, target, None), _MOST_PER_REPEAT):
            yield attack, Focus(whole=plan.task != "answer", repeat=repeat)
        if repeat.calls:
            for attack in islice(_attacks(plan, drawn, target, None), 1):
                yield attack, Focus(whole=plan.task != "answer", alone=True)


def _attacks(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, partner: int | None
) -> Iterator[Witness]:
    """Yield attacks on one record, each once; a partner is known in different states."""
    if not _secret(plan, target):
        return
    keys = set()
    by_pair = [
        [(known, pair) for known in _known(plan, drawn, target, partner, pair)]
        for pair in islice(secret_pairs(plan, drawn), _MOST_PER_RECORD)
    ]
    for known, (value, other) in (one for row in zip_longest(*by_pair) for one in row if one):
        attack = Witness(target, drawn.length, tuple(sorted(known.items())), value, other)
        key = attack.known, value, other
        if key not in keys:
            keys.add(key)
            yield attack


def _secret(plan: "Plan[Any]", target: int) -> bool:
    against, records = plan.against, plan.leakage.secret.targets
    if isinstance(against, Adversary):
        return target == against.target
    if plan.task == "redact":
        return target in plan.mechanism.protect
    return records is None or target in records


def _known(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, partner: int | None, pair: tuple[Any, Any]
) -> Iterator[dict[int, Any]]:
    """Yield known records: all others in one state, none, or all others as drawn."""
    if plan.against == "ignorant":
        yield {}
        return
    everyone = [record for record in range(drawn.length) if record != target]
    if isinstance(plan.against, Adversary):
        everyone = list(plan.against.known)
    named = drawn.model.states
    if not named:
        states: tuple[Any, ...] = pair[::-1]
        fills = [{record: drawn.tried(record)[0] for record in everyone}]
    else:
        states = (*pair[::-1], *(state for state in named if state not in pair))[
            :_MOST_KNOWN_STATES
        ]
        fills = [dict.fromkeys(everyone, state) for state in states]
    yield fills[0]
    if plan.against == "any":
        yield {}
    for fill in fills:
        yield from ([fill | {partner: state} for state in states] if partner in fill else [fill])
    with suppress(InvalidInput):  # this value of the target cannot occur
        draw = source_of(drawn).given({target: drawn.code(pair[0])})
        row = draw(1, np.random.default_rng(0))[0].tolist()
        yield {record: named[row[record]] if named else row[record] for record in everyone}


DRAWS = 50_000
"""Series drawn for each value of the target, by default."""

BLIND = (
    "three or more records, or answers, that matter only together",
    "noise that returns after more answers than a screening compares, or in no fixed order",
    f"pairs of records more than {BLOCK} apart, except between the two ends",
    "code that answers rarely, on some data only, or under an audit, in another way",
    "secrets in the last digits of real numbers, in running times, and in what is not an answer",
    "events rarer than about 200 in the draws, and data that the plan's model does not describe",
)
"""Failures that an audit cannot detect."""

LEAST_DRAWS = 1000
"""Fewer draws could refute nothing but a plan without noise."""

_MOST_DRAWS = 10**9
"""Most draws (cost)."""

_FIRST_DRAWS = 2500
"""Draws of every attack in the first round."""

_FINALISTS = 2
"""Attacks that continue after the first round."""

_BATCH_RECORDS = 2**21
"""Records of a batch, about."""

_BATCH_SERIES = 500
"""Least series of a batch."""

Progress = Callable[[int, int], object]
"""Told how many series of how many have been answered."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of attacks on a plan's release code.

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
    secret: str = ""

    @property
    def cannot_see(self) -> tuple[str, ...]:
        """Failures that the audit cannot detect; first those of a secret of several records."""
        if not self.secret:
            return BLIND
        return (f"what is revealed about {self.secret}: attacks are about one record", *BLIND)

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is broken, at the confidence asked for."""
        return self.verdict == "refuted"

    def words(self) -> str:
        """Return the verdict in one sentence."""
        sure = f"with {100 * self.confidence:g}% confidence"
        at, limit = self.at_delta(), self.limit_words()
        if self.refuted:
            factor = f" (a factor {below(math.exp(self.lower), 3)} in the odds)"
            return (
                f"refuted: {sure} the leakage{at} is at least {below(self.lower, 4)}"
                f"{'' if self.delta else factor}, and at most {limit} was guaranteed"
            )
        return (
            f"consistent with the guarantee of {limit}: the best of {self.attacks} "
            f"attacks shows, {sure}, a leakage{at} of at least {below(self.lower, 4)}"
        )

    def at_delta(self) -> str:
        """Return the delta of the leakages in words, '' if it is 0."""
        return f" at delta {self.delta}" if self.delta else ""

    def limit_words(self) -> str:
        """Return the guaranteed leakage in words, with its delta."""
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
        """Return the verdict and its evidence."""
        return (
            f"{self.words()}\nattack: {self.attack_words()}\nevent: {self.event}; of "
            f"{self.draws:,} series (half of each value) in {self.hits:,} with "
            f"{self.attack.value!r} and in {self.other_hits:,} with {self.attack.other!r}"
            f"{f'; in {self.blanks:,} blank draws, for delta' if self.delta else ''}"
            f"{'' if self.refuted else f'{chr(10)}cannot be seen: ' + '; '.join(self.cannot_see)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        return entries | {"attack": self.attack.to_dict(), "cannot_see": list(self.cannot_see)}


def audit(
    plan: "Plan[Any]",
    draws: int = DRAWS,
    *,
    seed: Seed = None,
    mechanism: BlackBox | None = None,
    confidence: float = 0.95,
    limit: float | None = None,
    delta: float | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit the release code of a plan by attacks: refuted, or consistent.

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
        Makes the audit repeatable: a whole number, or a generator of NumPy that one is drawn from.
        Discrete noise then comes from a seeded sampler and not from the secure one of a release.
        None audits the code of a release itself.
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

    >>> from undertow import Count, DiscreteLaplace, MarkovChain, Plan
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=60)
    >>> claimed = Leakage(1.0, 1.0, "informed", "any")
    >>> plain = Plan(DiscreteLaplace(Count(1), 1.0), chain, 1.0, claimed, "laplace")
    >>> audit(plain, 2000, seed=1).verdict
    'refuted'
    """
    check_plan(plan)
    draws = check_count(draws, "draws", LEAST_DRAWS, _MOST_DRAWS)
    confidence = check_number(confidence, "confidence")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, found {confidence}")
    claimed = min(plan.limit, plan.leakage.upper)
    guaranteed = claimed if limit is None else check_positive(limit, "limit")
    allowed = plan.delta if delta is None else check_delta(delta)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**32))  # named in the result, so that the audit can be repeated
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
    trial = trials[place]
    randomness = "secure" if seed is None else f"insecure, seed {seed}"
    if mechanism is not None:
        randomness = "that of the mechanism given"
    return Audit(
        "refuted" if test.lower > guaranteed else "consistent",
        test.lower, guaranteed, confidence, trial.attack, trial.describe(event),
        test.hits, test.other_hits, test.draws, len(trials), halves.done, randomness,
        allowed, test.blanks, plan.releases if plan.task == "answer" else 1, _together(plan),
    )  # fmt: skip


def _together(plan: "Plan[Any]") -> str:
    """Return the several records that a plan protects together, in words, "" for one record."""
    secret = plan.leakage.secret
    if secret.person:
        return "all records of a person"
    return f"{secret.window} records in a row" if secret.window > 1 else ""


def _trials(
    plan: "Plan[Any]", mechanism: BlackBox | None, seed: np.random.SeedSequence | None
) -> list[Trial]:
    """Return the attacks that can be tried, the plan's witness first."""
    trials: list[Trial] = []
    models = drawn_models(plan)
    seeds = [None] * len(models) if seed is None else seed.spawn(len(models))
    for drawn, own in zip(models, seeds, strict=True):
        box = mechanism or release_code(plan, drawn.model.states, own)
        for attack in attacks(plan, drawn, MOST_ATTACKS // len(models)):
            with suppress(InvalidInput):  # values that cannot occur together under the model
                trials.append(prepare(plan, drawn, attack, box))
    return trials


def _suspected(
    plan: "Plan[Any]", mechanism: BlackBox | None, seeded: bool, seed: np.random.SeedSequence,
    draws: int,
) -> tuple[list[Trial], int]:  # fmt: skip
    """Return the attacks that a screening suggests, and the number of answers it used.

    A set of models is screened on the first of them: which record weighs more, and which noise is
    shared, is a matter of the code.
    """
    drawn = drawn_models(plan)[0]
    own, data = seed.spawn(2)
    box = mechanism or release_code(plan, drawn.model.states, own if seeded else None)
    suspects = screen(plan, drawn, box, draws, np.random.default_rng(data))
    trials: list[Trial] = []
    for attack, focus in suspected_attacks(plan, drawn, suspects):
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
        """Return the scores or labels of an event under both values."""
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
        sample = self._drawn(half, place, draws)
        best = choose_event(
            np.concatenate(sample.scores[0]), np.concatenate(sample.scores[1]), error,
            delta=self.delta,
        )  # fmt: skip
        other = choose_labels(
            np.concatenate(sample.labels[0]), np.concatenate(sample.labels[1]), error,
            delta=self.delta,
        )  # fmt: skip
        return best if other is None or other.guess <= best.guess else other

    def tested(self, half: int, place: int, event: Event, error: float) -> Confirmation:
        """Return the confirmed bound of an event from all draws of a half."""
        sample = self._drawn(half, place, self.draws)
        blanks = Blanks(self.delta, np.concatenate(sample.levels)) if self.delta else NO_BLANKS
        return try_event(event, *sample.parts(event), error, blanks)

    def _drawn(self, half: int, place: int, draws: int) -> _Seen:
        """Return the draws of an attack in a half, so many for each value, drawn as needed."""
        sample = self._seen.setdefault((half, place), _Seen(([], []), ([], []), []))
        values = 3 if self.delta else 2  # the third one is blank
        missing = values * draws - sample.had
        if missing > 0:  # a coin chooses the value of each series
            first = int(self._generator.binomial(missing, 1 / values))
            rest = missing - first
            second = int(self._generator.binomial(rest, 0.5)) if self.delta else rest
            for value, size in enumerate((first, second)):
                self._answered(self.trials[place], value, size, sample)
            if self.delta:
                below = int(self._generator.binomial(rest - second, self.delta))
                sample.levels.append(self.delta * self._generator.random(below))
            sample.had += missing
        return sample

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
    return min(draws, max(_FIRST_DRAWS, draws // 8))


def _batches(draws: int, length: int) -> Iterator[int]:
    most = max(_BATCH_RECORDS // length, _BATCH_SERIES)
    while draws > 0:
        yield min(draws, most)
        draws -= most


def _chosen(
    halves: _Halves, half: int, error: float, witness: Witness | None, limit: float
) -> tuple[int, Choice]:
    """Return the most promising attack, by its place, and its event, from one half of the draws.

    All attacks get some draws; the best of them, and the plan's own witness, get them all. Attacks
    on shared noise that promise to refute the limit come before all others, those on rows of one
    call first: where answers share noise, what the others promise in one half is chance.
    """

    def choices(places: list[int], draws: int) -> dict[int, Choice]:
        return {place: halves.chosen(half, place, draws, error) for place in places}

    def rank(place: int) -> tuple[int, float]:
        repeat, guess = halves.trials[place].focus.repeat, choice[place].guess
        return (2 if repeat is None or guess <= limit else int(repeat.calls)), -guess

    choice = choices(list(range(len(halves.trials))), halves.few)
    order = sorted(choice, key=rank)
    if halves.few < halves.draws:
        finalists = dict.fromkeys([*order[:_FINALISTS], *([0] if witness is not None else [])])
        choice = choices(list(finalists), halves.draws)
        order = sorted(choice, key=rank)
    return order[0], choice[order[0]]
