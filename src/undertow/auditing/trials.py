"""One attack made ready to run: how to draw, what to run, and how to score an answer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow.auditing.blackbox import BlackBox, together
from undertow.auditing.draws import ChainSource, Draw, GaussianSource, NetworkSource, SeriesSource
from undertow.auditing.hidden import hidden
from undertow.auditing.labels import Labelled, number_labels, pair_labels
from undertow.auditing.scenarios import DrawnModel
from undertow.auditing.scores import (
    Blur,
    Score,
    answer_score,
    count_middle,
    count_score,
    laplace_blur,
    normal_blur,
    of_mean,
    series_score,
    table_blur,
)
from undertow.auditing.statistical import Event, LabelEvent
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.network import BayesianNetwork
from undertow.plan import Plan
from undertow.queries import AnyQuery

__all__ = ["REACH", "Trial", "prepare"]

REACH = 16
"""Records of a flipped series that are looked at on a side where nothing is known."""


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

    def describe(self, event: Event) -> str:
        """Return an event in words."""
        if isinstance(event, LabelEvent):
            return self.labelled.words(event.score, event.labels)
        name = self.scored if event.score == 0 else self.number
        if event.score > 1:
            name = f"score {event.score} of the released numbers"
        return f"{name} at {'least' if event.above else 'most'} {event.threshold:.6g}"


def prepare(plan: "Plan[Any]", drawn: DrawnModel, attack: Witness, mechanism: BlackBox) -> Trial:
    """Return an attack on a drawn model, ready to run; refuse values that cannot occur together.

    Several releases are attacked together, as answers about the same series.
    """
    fixed = drawn.fixed(attack, attack.value), drawn.fixed(attack, attack.other)
    if plan.task != "answer":
        return _local(plan, drawn, attack, mechanism, fixed)
    source, query = _source(drawn), plan.noise.query
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
        number_labels(*_lattice(query, source.length), middles), number,
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


def _source(drawn: DrawnModel) -> SeriesSource:
    if isinstance(drawn.model, MultivariateGaussian):
        return GaussianSource(drawn.model)
    if isinstance(drawn.model, BayesianNetwork):
        return NetworkSource(drawn.model, drawn.order)
    return ChainSource(drawn.model, drawn.length)


def _local(
    plan: "Plan[Any]", drawn: DrawnModel, attack: Witness, box: BlackBox,
    fixed: tuple[dict[int, Any], dict[int, Any]],
) -> Trial:  # fmt: skip
    """Return an attack on a series that is shown record by record."""
    chain, mechanism = drawn.model, plan.mechanism
    if chain.hidden_law() is None:
        raise NotSupported(
            f"a series is audited on a Markov chain, and the plan's model is a "
            f"{type(chain).__name__}; audit a plan for a MarkovChain"
        )
    first, last = _window(plan, drawn, attack)
    redacted = plan.task == "redact"
    # erasures go by place, so they need the whole series; flips do not
    begin, length = (0, drawn.length) if redacted else (first, last - first + 1)
    source = ChainSource(chain, length, begin)
    # records of the drawn part are counted from its first
    inside = [{r - begin: v for r, v in some.items() if 0 <= r - begin < length} for some in fixed]
    known = {record: chain.index(state) for record, state in attack.known}
    pair = chain.index(attack.value), chain.index(attack.other)
    window = range(first, last + 1)
    ratio = series_score(hidden(mechanism, chain), window, known, attack.target, pair)

    def score(outputs: Any) -> Any:
        return ratio(outputs[:, first - begin : last - begin + 1])

    outputs = len(mechanism.names(chain.states))
    paired = pair_labels(attack.target - first, len(window), outputs + redacted)

    def label(shown: Any) -> Any:
        return paired.label(shown[:, first - begin : last - begin + 1])

    return Trial(
        attack, length, (source.given(inside[0]), source.given(inside[1])), box,
        outputs + redacted, score, "the log-likelihood ratio of the series",
        Labelled(label, paired.columns),
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
