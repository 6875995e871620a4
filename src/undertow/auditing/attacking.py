"""Attacks on released outputs, compared with the truth: `attack` and its results."""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Against, words
from undertow.auditing.attackers import (
    ATTACKERS,
    Attacker,
    Guess,
    Scenario,
    answered,
    average_bound,
    covers,
    prior_law,
    read_answers,
)
from undertow.auditing.inference import Observed, known_places, observe, read_outputs
from undertow.data.codes import Coded, Rule, coded_whole, column_of, is_frame
from undertow.data.grid import PERSON, TIME
from undertow.data.records import check_kind
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported
from undertow.frames import ResultTable
from undertow.models.base import Model
from undertow.models.classes import ChainBox
from undertow.numerics import Array, check_count, check_listed, check_positive, shown
from undertow.plan import Plan, check_plan
from undertow.queries import State
from undertow.rounding import above

__all__ = [
    "Attack",
    "Verdict",
    "as_data",
    "attack",
    "check_match",
    "check_possible",
    "share_interval",
]


_ENOUGH_SERIES = 30
"""Least number of series that are blocks by themselves."""

_MOST_BLOCKS = 100
"""Most blocks of a few long series: blocks must be longer than the dependence."""


def share_interval(
    right: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64], confidence: float
) -> tuple[float, float]:
    """Return an interval for the probability to be right, from dependent outcomes in order.

    ``sizes`` says how many outcomes each series has; series are independent of each other. With
    at least 30 series these are the blocks, else runs of outcomes, about the square root of their
    number. The variance of the blocks says how many independent outcomes n' the n are worth (at
    most n), and the interval is that of Clopper and Pearson for n' of which the same share is
    right, n' reduced as Student's t asks for few blocks. Where all are right, or none, each block
    counts once.

    >>> right = np.array([True] * 80 + [False] * 20)
    >>> low, high = share_interval(right, np.array([100]), 0.95)
    >>> bool(low < 0.5 and high > 0.9)  # one run of errors tells little
    True
    >>> mixed = np.array([True, True, False, True, True] * 20)
    >>> [round(float(end), 2) for end in share_interval(mixed, np.array([100]), 0.95)]
    [0.69, 0.88]
    """
    from scipy.special import betaincinv, stdtrit

    count = right.size
    starts = _blocks(sizes)
    share = float(right.mean())
    tail = (1 - confidence) / 2
    worth = float(len(starts))
    if 0 < share < 1 and len(starts) > 1:
        sums = np.add.reduceat(right.astype(np.float64), starts)  # (blocks,): how many are right
        lengths = np.diff(np.append(starts, count))
        # the variance of the number that are right, from blocks that are taken to be independent
        spread = float(((sums - share * lengths) ** 2).sum()) * len(starts) / (len(starts) - 1)
        # times as large as the variance of independent outcomes
        excess = max(spread / (count * share * (1 - share)), 1.0)
        few = stdtrit(count - 1, 1 - tail) / stdtrit(len(starts) - 1, 1 - tail)
        worth = count / excess * min(float(few), 1.0) ** 2
    # Clopper and Pearson: ends are quantiles of beta distributions, also for fractions of hits
    hits = share * worth
    low = 0.0 if hits <= 0 else float(betaincinv(hits, worth - hits + 1, tail))
    high = 1.0 if hits >= worth else float(betaincinv(hits + 1, worth - hits, 1 - tail))
    return low, high


def _blocks(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each block begins; none reaches from one series into the next."""
    sizes = sizes[sizes > 0]
    begins = np.cumsum(sizes) - sizes
    if len(sizes) >= _ENOUGH_SERIES:
        return begins
    total = int(sizes.sum())
    wanted = min(_MOST_BLOCKS, max(1, math.isqrt(total)))
    parts = np.maximum(1, np.rint(sizes * wanted / total)).astype(int)
    cut = [
        begin + np.arange(part) * size // part
        for begin, size, part in zip(begins.tolist(), sizes.tolist(), parts.tolist(), strict=True)
    ]
    return np.concatenate(cut).astype(np.int64)


def as_data(outputs: Any, truth: Any) -> Any:
    """Return a sanitised frame as `Data` with the roles that the truth has; all else as it is.

    >>> as_data([0, 1], [0, 1])
    [0, 1]
    """
    if not isinstance(truth, Data) or not is_frame(outputs):
        return outputs
    grid = truth.grid
    every: int | dt.timedelta | None = grid.step
    if grid.step is not None and grid.clock:
        every = dt.timedelta(microseconds=grid.step)
    return Data(
        outputs, value=column_of(outputs).name, person=grid.person, time=grid.time, every=every
    )


def check_match(read: Coded, true: Coded, outputs: Any, truth: Any) -> None:
    """Refuse a truth whose series differ from those of the outputs in length or time.

    >>> from undertow.data.codes import Rule, coded
    >>> rule = Rule((0, 1))
    >>> check_match(coded([0, 1], rule), coded([0, 1], rule), [0, 1], [0, 1])
    """
    if len(read.lengths) != len(true.lengths):
        raise InvalidInput(
            f"there are outputs of {len(read.lengths)} series, and the truth has "
            f"{len(true.lengths)}; pass the records that were randomised"
        )
    wrong = np.flatnonzero((read.lengths != true.lengths) | (read.spans != true.spans))
    if wrong.size:
        series = int(wrong[0])
        raise InvalidInput(
            f"series {series} (counting from 0) has {int(read.lengths[series])} outputs and "
            f"{int(true.lengths[series])} true records over {int(read.spans[series])} and "
            f"{int(true.spans[series])} steps of time; pass the records that were randomised"
        )
    if isinstance(outputs, Data) and isinstance(truth, Data):
        _check_rows(outputs, truth)


def check_possible(outputs: Observed, true: Coded) -> None:
    """Refuse a truth that cannot have led to the outputs, by place.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.auditing.inference import observe
    >>> from undertow.data.codes import Rule, coded
    >>> sure, chain = RandomizedResponse([[1, 0], [0, 1]]), MarkovChain([[.9, .1], [.3, .7]])
    >>> records = coded([0, 1], Rule((0, 1)))
    >>> check_possible(observe(records, sure, chain), records)
    """
    codes = outputs.present_values(outputs.codes)  # (records,): rows of the emission
    never = outputs.hidden.own[codes, true.codes] <= 0
    if never.any():
        at = int(np.argmax(never))
        series = int(np.searchsorted(np.cumsum(true.lengths), at, side="right"))
        record = at - int(true.lengths[:series].sum())
        raise InvalidInput(
            f"the output of record {record} of series {series} (counting from 0) cannot come from "
            "the true record there; pass the records that were randomised"
        )


def _check_rows(outputs: Data, truth: Data) -> None:
    """Refuse tables whose rows are of different persons or times, by row."""
    frames = []
    for data in (outputs, truth):
        names = [PERSON] if data.moment is None else [PERSON, TIME]
        (rows,) = data.source.collect(data.grid.windowed(data.rows()).select(names))
        listed = [rows[name].to_list() for name in names]
        if data.grid.person is not None:
            listed[0] = data.source.columns[data.grid.person].persons(listed[0])
        frames.append(listed)
    first, second = frames
    if len(first) != len(second):
        raise InvalidInput("outputs and truth must both have a column of times, or neither")
    for ours, theirs in zip(first, second, strict=True):
        for row, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if str(one) != str(other):
                raise InvalidInput(
                    f"row {row} (counting from 0) of the outputs is not of the person and time of "
                    "that row of the truth; pass both with the rows in the same order"
                )


Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The success of one attacker on the targets.

    ``accuracy`` is the share of targets guessed right and ``interval`` what it says about the
    probability to be right; ``prior`` that without any output (by the model and what is known).
    ``worst`` is the furthest that the outputs moved the odds between two states of one target, as
    a logarithm, at ``place`` (series and record; None for attackers who give no odds): whatever
    is drawn, it stays below the leakage of a plan that ``covers`` the attacker. ``bound`` is what
    the plan guarantees for the accuracy, on average over data and outputs; None where it guarantees
    nothing about these secrets.

    >>> print(Verdict("lstm", .8, (.75, .85), .5, None, None, .88, True, 200))
    lstm: 0.8 right (0.75 to 0.85), 0.3 more than the prior, charges 1.386; at most 0.88 guaranteed
    """

    attacker: str
    accuracy: float
    interval: Interval
    prior: float
    worst: float | None
    place: tuple[int, int] | None
    bound: float | None
    covers: bool
    targets: int

    @property
    def advantage(self) -> float:
        """The accuracy less that of guessing by the prior."""
        return self.accuracy - self.prior

    @property
    def advantage_interval(self) -> Interval:
        """The interval of the advantage, from that of the accuracy."""
        return self.interval[0] - self.prior, self.interval[1] - self.prior

    @property
    def charged(self) -> float:
        """The least limit that explains the success: ln of its odds over the odds of the prior.

        Nothing (0) where the prior alone is right as often. A guarantee of limit that covers the
        attacker keeps it below limit, on average. Section 4.1 of [chakrabarti2022].
        """
        return _charge(self.accuracy, self.prior)

    @property
    def charged_interval(self) -> Interval:
        """The interval of the limit charged, from that of the accuracy."""
        low, high = self.interval
        return _charge(low, self.prior), _charge(high, self.prior)

    def exceeds(self) -> bool:
        """Return whether even the lower end of the interval is beyond the bound."""
        return self.bound is not None and self.interval[0] > self.bound

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        names = (
            "attacker", "accuracy", "interval", "prior", "advantage", "advantage_interval",
            "charged", "charged_interval", "worst", "place", "bound", "targets",
        )  # fmt: skip
        fields = {name: getattr(self, name) for name in names}
        return _plain(fields) | {"covered": self.covers, "exceeds": self.exceeds()}

    def guarantee(self) -> str:
        """Return the bound in a few words."""
        if self.bound is None:
            return "nothing guaranteed"
        if not self.covers:
            return f"{above(self.bound, 3)} guaranteed, but not against this attacker"
        return f"at most {above(self.bound, 3)} guaranteed"

    def __str__(self) -> str:
        low, high = self.interval
        more = f"{abs(self.advantage):.3g} {'more' if self.advantage >= 0 else 'less'}"
        return (
            f"{self.attacker}: {self.accuracy:.3g} right ({low:.3g} to {high:.3g}), {more} than "
            f"the prior, charges {self.charged:.4g}; {self.guarantee()}"
        )


@dataclass(frozen=True, slots=True)
class Attack(ResultTable):
    """The success of all attackers against one release.

    Guesses follow from the outputs; how often they are right follows from the truth, so a report
    of it is for those who may see the truth. ``conditions`` are those of the plan, its failed and
    accepted checks among them: the guarantee holds under them alone.

    >>> one = Verdict("viterbi", .8, (.75, .85), .5, None, None, .88, True, 200)
    >>> Attack((one,), 2.0, "any", 200, 1).verdict("viterbi").accuracy
    0.8
    """

    verdicts: tuple[Verdict, ...]
    limit: float
    against: Against
    records: int
    series: int
    known: tuple[int, ...] = ()
    confidence: float = 0.95
    laws: tuple[tuple[float, tuple[float, ...]], ...] = field(default=(), repr=False)
    conditions: tuple[str, ...] = ()

    def bound(self, limit: float) -> float:
        """Return the largest accuracy under a guarantee of this limit.

        ``laws`` are the different priors of the targets, each with its share of them.
        """
        shares = np.array([share for share, _ in self.laws])
        bounds = average_bound(np.array([law for _, law in self.laws]), limit)
        return float(np.average(bounds, weights=shares))

    def verdict(self, attacker: str) -> Verdict:
        """Return the result of one attacker."""
        return next(one for one in self.verdicts if one.attacker == attacker)

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each attacker."""
        return [one.to_dict() for one in self.verdicts]

    def broken(self) -> tuple[Verdict, ...]:
        """Return the covered attackers who exceed the guarantee.

        An attacker exceeds it if the accuracy is beyond the bound at the confidence, or if the
        odds of one target moved further than the guarantee allows.
        """
        return tuple(one for one in self.verdicts if one.covers and self._beats(one))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        against = self.against
        return {
            "limit": self.limit,
            "against": against if isinstance(against, str) else _plain(asdict(against)),
            "records": self.records,
            "series": self.series,
            "known": list(self.known),
            "confidence": self.confidence,
            "conditions": list(self.conditions),
            "broken": [one.attacker for one in self.broken()],
            "verdicts": self.descriptions(),
        }

    def __str__(self) -> str:
        head = (
            f"{self.records} records, leakage {above(self.limit)} guaranteed against "
            f"{words(self.against)}"
        )
        head = "; ".join([head, *self.conditions])
        return "\n".join([head, *(f"  {one}" for one in self.verdicts)])

    def _beats(self, one: Verdict) -> bool:
        far = (
            one.worst is not None and one.worst > self.limit * (1 + _ODDS_ROUNDING) + _ODDS_ROUNDING
        )
        return one.exceeds() or far


_ODDS_ROUNDING = 1e-9
"""Rounding error of the odds that an attacker computes (in favour of the plan)."""


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the entries with lists for tuples, as JSON has them."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def _charge(share: float, prior: float) -> float:
    if share <= prior:
        return 0.0
    if share >= 1 or prior <= 0:
        return math.inf
    return math.log(share / (1 - share)) - math.log(prior / (1 - prior))


Places = npt.NDArray[np.int64]

_MOST_RECORDS = 2**62
"""Records that a series can have."""


def attack(
    sanitised: Any,
    plan: "Plan[Any]",
    truth: Any,
    attackers: Iterable[str | Attacker] | None = None,
    known: Iterable[int] = (),
    targets: Iterable[int] | None = None,
    model: Model | None = None,
    confidence: float = 0.95,
) -> Attack:
    """Compute the success of attackers against the outputs of a plan.

    Each guesses the state of every target from what was released, the model and the known
    records; the truth says how often it is right. Attackers on series: "prior", "single-bit",
    "correlation-aware", "viterbi", "informed", "lstm"; on noisy counts and sums: "prior", "bayes",
    "informed". The results depend on the truth: they are for those who may see it.

    Parameters
    ----------
    sanitised
        What `sanitize` returned; or a released answer, or a list with one for each
        series.
    plan
        The plan that was carried out.
    truth
        The true records, in the form of the outputs: a list, an array, a column, or `Data`.
        Missing and foreign ones are in the state that the plan names; if it names none, there must
        be none.
    attackers
        Names of attackers, by default all but "informed"; or functions that take a `Scenario` and
        return a `Guess`.
    known
        Records (0-based, in every series the same) that the attacker knows; their states are
        taken from the truth. "single-bit" does not use them, "informed" knows all but the target.
    targets
        Records to guess; by default those that the plan protects. Known ones are left out.
    model
        The chain that the attacker believes in; by default that of the plan.
    confidence
        The probability that an interval holds.

    >>> from undertow import MarkovChain, Plan, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> from undertow.releasing.series import sanitize
    >>> chain = MarkovChain([[.95, .05], [.05, .95]])
    >>> flips = RandomizedResponse.binary(.25, .25)
    >>> plan = Plan(flips, chain, 1.1, Leakage(1.1, 1.1, "exact", "informed"), "exact")
    >>> truth = chain.simulate(2000, seed=1)
    >>> outcome = attack(sanitize(plan, truth, insecure_seed=2), plan, truth)
    >>> [(one.attacker, round(one.accuracy, 2), one.exceeds()) for one in outcome.verdicts[1:]]
    [('single-bit', 0.75, False), ('correlation-aware', 0.9, True), ('viterbi', 0.89, True)]
    """
    chain = _chain(plan, model)
    if plan.delta:
        raise NotSupported(
            "attackers are held against a bound on odds, and a plan with a delta gives none that "
            "always holds; audit(plan) tests what it guarantees"
        )
    share = check_positive(confidence, "confidence")
    if share >= 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, found {share}")
    listed = check_listed(known, "known")
    facts = tuple(sorted({check_count(r, "known record", 0, _MOST_RECORDS) for r in listed}))
    wanted = None
    if targets is not None:
        wanted = tuple(check_count(t, "target", 0) for t in check_listed(targets, "targets"))
    check_kind(plan.model, truth)  # the middle of a region says nothing of its records
    true = coded_whole(truth, _rule(chain, plan.rest), "an attack")
    guesses = (_answers if plan.task == "answer" else _series)(
        sanitised, plan, chain, truth, true, facts, attackers
    )
    return _compared(guesses, true, plan, chain, facts, _wanted(plan, wanted), share)


Guesses = dict[str, Callable[[], Guess]]
"""Every attacker by name, as a function without arguments."""


def _series(
    sanitised: Any, plan: "Plan[Any]", chain: Model, truth: Any, true: Coded,
    known: tuple[int, ...], attackers: Iterable[str | Attacker] | None,
) -> Guesses:  # fmt: skip
    named = _named(attackers, ("prior", "single-bit", "correlation-aware", "viterbi"))
    sanitised = as_data(sanitised, truth)
    read = read_outputs(sanitised, plan.mechanism, chain)
    check_match(read, true, sanitised, truth)
    outputs = observe(read, plan.mechanism, chain)
    check_possible(outputs, true)
    records = known_places(known, true.lengths)
    states = true.codes[records]
    # records count those that are there, places the steps of time: absent ones are hidden, too
    places = records if outputs.present is None else outputs.present[records]
    law = prior_law(chain, read.spans, places, states)  # (steps of time, states)
    observed = outputs.with_known(places, states)
    scenario = Scenario(chain, outputs, observed, outputs.present_values(law), true.codes)
    return {name: partial(attacker, scenario) for name, attacker in named.items()}


def _answers(
    sanitised: Any, plan: "Plan[Any]", chain: Model, truth: Any, true: Coded,
    known: tuple[int, ...], attackers: Iterable[str | Attacker] | None,
) -> Guesses:  # fmt: skip
    names = ["prior", "bayes"] if attackers is None else check_listed(attackers, "attackers")
    for name in names:
        if name not in ("prior", "bayes", "informed"):
            raise InvalidInput(
                "attackers on noisy answers are 'prior', 'bayes' and 'informed', found "
                f"{shown(name)}"
            )
    if true.places is not None:
        raise NotSupported("attacks on answers need series without absent steps")
    answers = read_answers(sanitised, plan, len(true.lengths))
    scenario = answered(answers, plan, chain, true, known_places(known, true.lengths))
    return {str(name): partial(scenario.guess, str(name)) for name in names}


def _compared(
    guesses: Guesses, true: Coded, plan: "Plan[Any]", chain: Model, known: tuple[int, ...],
    wanted: tuple[int, ...] | None, confidence: float,
) -> Attack:  # fmt: skip
    lengths, epsilon = true.lengths, plan.leakage.upper
    owner = np.repeat(np.arange(len(lengths)), lengths)  # (records,): the series of each
    record = np.arange(owner.size) - (np.cumsum(lengths) - lengths)[owner]  # (records,): within it
    chosen = _chosen(lengths, record, known, wanted)  # (targets,): their places among all records
    sizes = np.bincount(owner[chosen], minlength=len(lengths)).astype(np.int64)
    verdicts: list[Verdict] = []
    laws: tuple[tuple[float, tuple[float, ...]], ...] = ()
    for name, attacker in guesses.items():
        guess = attacker()
        right = (guess.states == true.codes)[chosen]
        worst = place = None
        if guess.shifts is not None:
            at = int(chosen[np.argmax(guess.shifts[chosen])])
            worst = float(guess.shifts[at])
            place = int(owner[at]), int(record[at])
        law, times = _laws(guess.prior, chosen)
        bound = None
        if plan.leakage.secret.value_pairs is None:
            bound = float(np.average(average_bound(law, epsilon), weights=times))
        verdict = Verdict(
            name, float(right.mean()), share_interval(right, sizes, confidence),
            float(np.average(law.max(axis=1), weights=times)), worst, place, bound,
            covers(plan, attacker=name, known=known, targets=wanted, model=chain), len(chosen),
        )  # fmt: skip
        verdicts.append(verdict)
        laws = laws or _shares(law, times)
    return Attack(
        tuple(verdicts), epsilon, plan.against, int(lengths.sum()), len(lengths), known,
        confidence, laws, plan.conditions(),
    )  # fmt: skip


def _laws(prior: Array, chosen: Places) -> tuple[Array, Places]:
    """Return the priors of the chosen records, and how often each stands for one."""
    if prior.strides[0] == 0:  # one law for all
        return prior[:1], np.array([len(chosen)])
    return prior[chosen], np.ones(len(chosen), dtype=np.int64)


def _shares(law: Array, times: Places) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Return the different priors, to nine digits, and the share of targets that has each."""
    # which state has which probability does not matter to the bound: (priors, sorted states)
    ordered = np.sort(law, axis=1).round(9)
    different, place = np.unique(ordered, axis=0, return_inverse=True)
    shares = np.bincount(place.reshape(-1), weights=times) / times.sum()
    return tuple(
        (share, tuple(one)) for share, one in zip(shares.tolist(), different.tolist(), strict=True)
    )


def _chosen(
    lengths: Places, record: Places, known: tuple[int, ...], wanted: tuple[int, ...] | None
) -> Places:
    """Return the places of the targets: in every series, those wanted that are not known."""
    chosen = np.ones(record.size, dtype=np.bool_) if wanted is None else np.isin(record, wanted)
    if wanted is not None and max(wanted, default=0) >= lengths.min():
        raise InvalidInput(
            f"record {max(wanted)} is wanted, but a series has {lengths.min()} records, counted "
            "from 0"
        )
    chosen &= ~np.isin(record, known)
    if not chosen.any():
        raise InvalidInput("no record is left to guess: all targets are known")
    return np.flatnonzero(chosen)


def _wanted(plan: "Plan[Any]", targets: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the records to guess, None for all."""
    if targets is not None:
        if not targets:
            raise InvalidInput("targets is empty: name at least one record, or leave it out")
        return tuple(sorted(set(targets)))
    if plan.task == "redact":
        return tuple(plan.mechanism.protect)
    return plan.leakage.secret.targets


def _named(
    attackers: Iterable[str | Attacker] | None, default: Sequence[str]
) -> dict[str, Attacker]:
    chosen: dict[str, Attacker] = {}
    for one in default if attackers is None else check_listed(attackers, "attackers"):
        if callable(one):
            chosen[getattr(one, "__name__", type(one).__name__)] = one
        elif isinstance(one, str) and one in ATTACKERS:
            chosen[one] = ATTACKERS[one]
        else:
            names = ", ".join(map(repr, ATTACKERS))
            raise InvalidInput(
                f"attackers on series are {names}, or functions such as "
                f"`undertow_papers.lstm.lstm_attacker()`; found {shown(one)}"
            )
    if not chosen:
        raise InvalidInput("name at least one attacker, or leave attackers out")
    return chosen


def _rule(chain: Model, rest: State | None) -> Rule:
    """Return how true records become states: missing ones as they were randomised."""
    return Rule(chain.states, foreign=None if rest is None else chain.states.index(rest))


def _chain(plan: Any, model: Any) -> Model:
    check_plan(plan)
    if model is not None and not (isinstance(model, Model) and model.lowered() is not None):
        raise InvalidInput(f"the attacker's model must be a MarkovChain, or one of order two or "
                           f"hidden, found a {type(model).__name__}")  # fmt: skip
    chain: Model = plan.model if model is None else model
    if isinstance(chain, ChainBox):
        chain = chain.middle()  # what an attacker who knows no more than the box believes in
    if chain.lowered() is None:
        raise NotSupported(
            f"the plan is for {plan.model.describe()} and names no single chain to attack with; "
            f"say which one the attacker believes in: model=MarkovChain(...) (guaranteed: "
            f"{above(plan.leakage.upper)})"
        )
    if plan.states and chain.states != plan.states:
        raise InvalidInput("the attacker's model must have the states of the plan, in their order")
    return chain
