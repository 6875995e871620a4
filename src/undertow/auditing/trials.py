"""One attack made ready to run: how to draw, what to run, and how to score an answer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow.auditing.blackbox import Batch, BlackBox, alone, beside, checked, together
from undertow.auditing.draws import ChainSource, Draw, GaussianSource, NetworkSource, SeriesSource
from undertow.auditing.hidden import hidden
from undertow.auditing.labels import (
    Labelled,
    call_labels,
    number_labels,
    output_labels,
    pair_labels,
)
from undertow.auditing.scenarios import DrawnModel
from undertow.auditing.scores import (
    Blur,
    Score,
    answer_score,
    call_score,
    count_middle,
    count_score,
    laplace_blur,
    normal_blur,
    of_mean,
    series_score,
    table_blur,
)
from undertow.auditing.screening import Repeat
from undertow.auditing.statistical import Event, LabelEvent
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.network import BayesianNetwork
from undertow.plan import Plan
from undertow.queries import AnyQuery

__all__ = ["PLAIN", "REACH", "Focus", "Trial", "prepare", "source_of"]

REACH = 16
"""Records of a flipped series that are looked at on a side where nothing is known."""


@dataclass(frozen=True, slots=True)
class Focus:
    """What an attack looks at beside the answer about the target.

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
    """An attack with the two laws of the data, the code on trial and the score of its answers."""

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
        """Return what the code answers, one answer or more for each series."""

        def run(asked: Batch) -> Batch:
            return checked(self.mechanism(asked), asked, self.outputs)

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
    """Return an attack on a drawn model, ready to run; refuse values that cannot occur together.

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
    """Return the answer of no steps and the size of a step: 0 and 1 where there are none."""
    if query.integral:
        return 0.0, 1.0
    try:
        query.lattice()
    except NotSupported:  # only code of one's own can answer it
        return 0.0, 1.0
    base = query.answer(0, length)
    return float(base), float(query.answer(1, length) - base)


def _blur(plan: "Plan[Any]") -> Blur:
    """Return the noise of the mean of all releases: how much, and of which shape."""
    noise, releases = plan.noise, plan.releases
    if releases > 1:
        return normal_blur(math.sqrt(noise.variance() / releases))
    if isinstance(noise, TabulatedNoise):
        return table_blur(noise)
    return laplace_blur(noise.amount) if noise.measure == "scale" else normal_blur(noise.amount)


def source_of(drawn: DrawnModel) -> SeriesSource:
    """Return where the series of a drawn model come from.

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
    """Return the records that matter: up to the nearest known or surely shown one, or a few."""
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
