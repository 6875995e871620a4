"""Leakage estimated from densities, as in a thesis: for a figure, not for a verdict.

Section 3.1.2 of [lange2024] draws adversaries at random, estimates the density of the answers
under either value from samples, and takes the largest ratio seen. That is neither a lower nor an
upper bound: the maximum of many noisy ratios lies above the true one more often than not, and the
adversaries tried may miss the worst. Use `undertow.audit` for a bound that holds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow import Laplace, Linear, MarkovChain, Mean, MultivariateGaussian, Sum
from undertow.auditing.scenarios import ChainSource, Draw, GaussianSource, SeriesSource
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import Array, Seed, check_count, random_generator

__all__ = ["LABEL", "Empirical", "density", "empirical_leakage", "ratio_estimate"]

LABEL = "estimate, can exceed the truth"
"""How an empirical leakage is called wherever it is shown."""

POINTS = 1000
TAIL = 0.005
PERCENTILE = 99.0
"""Points of evaluation, the share of the answers left out in either tail, and which one of the
sorted adversaries stands for all: as in section 3.1.2 of [lange2024]."""

_GRID = 2**12
_AGAIN = 50


@dataclass(frozen=True, slots=True)
class Empirical:
    """An estimate of a leakage, and the estimates of all adversaries it was made from, sorted.

    >>> Empirical(1.2, (0.8, 1.3), draws=1000, percentile=99.0).label
    'estimate, can exceed the truth'
    """

    value: float
    each: tuple[float, ...]
    draws: int
    percentile: float

    @property
    def label(self) -> str:
        """What to call it."""
        return LABEL

    def __str__(self) -> str:
        """Return the estimate, called what it is."""
        return (
            f"{self.value:.4g} ({LABEL}: percentile {self.percentile:g} of {len(self.each)} "
            f"adversaries, {self.draws:,} draws each)"
        )


def empirical_leakage(
    noise: Laplace,
    model: MarkovChain | MultivariateGaussian,
    *,
    length: int | None = None,
    adversaries: int = 1000,
    draws: int = 100_000,
    percentile: float = PERCENTILE,
    seed: Seed = None,
    progress: Callable[[int, int], object] | None = None,
) -> Empirical:
    """Return the leakage of a noisy query as estimated in [lange2024]: for figures only.

    Each adversary has a random target, two random values, and a random number of known records
    with random values; both laws of the answer are estimated from ``draws`` answers. The estimate
    is the given percentile over all adversaries. Sections 3.1.2, 6.4 and 7.3 of [lange2024].

    Differs from the paper: the density estimate is our own implementation of the same method.
    Noise is continuous here, as there; no release is made of it.

    Parameters
    ----------
    noise
        A Count, Sum, Mean or Linear with Laplace noise.
    model
        A chain, or Gaussian records.
    length
        Records of a chain that has no length of its own.
    adversaries, draws, percentile
        How many are tried, on how many draws, and which one counts.
    seed
        Makes the estimate repeatable: a whole number, or a generator of NumPy.
    progress
        Is told how many adversaries of how many are done.

    >>> from undertow import Count
    >>> chain = MarkovChain([[.75, .25], [.25, .75]], length=6)
    >>> found = empirical_leakage(Laplace(Count(1), 1.0), chain, adversaries=5, draws=2000, seed=1)
    >>> 0 < found.value < 9
    True
    """
    source = _source(model, length)
    adversaries = check_count(adversaries, "adversaries", 1)
    draws = check_count(draws, "draws", 100)
    if not 0 <= percentile <= 100:
        raise InvalidInput(f"percentile must lie between 0 and 100, found {percentile}")
    answer = _answer(noise, source)
    generator = random_generator(seed)
    estimates = []
    for done in range(adversaries):
        one, two = _adversary(source, noise, generator)
        answers = [
            answer(draw(draws, generator)) + generator.laplace(0.0, noise.scale, draws)  # (draws,)
            for draw in (one, two)
        ]
        estimates.append(ratio_estimate(answers[0], answers[1], generator))
        if progress is not None:
            progress(done + 1, adversaries)
    ordered = sorted(estimates)
    value = float(np.percentile(ordered, percentile, method="inverted_cdf"))
    return Empirical(value, tuple(ordered), draws, float(percentile))


def ratio_estimate(answers: Array, others: Array, generator: np.random.Generator) -> float:
    """Return the largest log-ratio of two estimated densities at random points.

    Points lie between the 0.5% and the 99.5% quantile of all answers; points where either estimate
    is not positive are left out.

    >>> draw = np.random.default_rng(1)
    >>> one, two = draw.laplace(0, 1, 4000), draw.laplace(0, 1, 4000)
    >>> ratio_estimate(one, two, draw) > 0
    True
    """
    low, high = np.quantile(np.concatenate([answers, others]), [TAIL, 1 - TAIL])
    points = generator.uniform(low, high, POINTS)
    first, second = density(answers, points), density(others, points)
    both = (first > 0) & (second > 0)
    if not both.any():
        return 0.0
    return float(np.abs(np.log(first[both]) - np.log(second[both])).max())


def density(sample: Array, points: Array) -> Array:
    """Return the density that a sample suggests at some points; it may be slightly negative.

    The self-consistent estimate of [bernacchia2011]: the sample's characteristic function, damped
    where it drowns in the noise of N draws, and cut off from where it does. No bandwidth is chosen.
    Linear in the sample, by binning and the fast Fourier transform.

    >>> sample = np.random.default_rng(1).normal(size=20_000)
    >>> bool(abs(density(sample, np.array([0.0]))[0] - 0.3989) < 0.03)
    True
    """
    size = sample.size
    low, high = float(sample.min()), float(sample.max())
    room = 0.1 * (high - low) or 1.0
    low, high = low - room, high + room
    step = (high - low) / _GRID
    place = (sample - low) / step
    left = np.floor(place).astype(np.int64)
    part = place - left
    # linear binning: each draw is shared by its two neighbours on the grid
    bins = np.bincount(left, 1 - part, _GRID) + np.bincount(left + 1, part, _GRID)
    waves = np.fft.rfft(bins[:_GRID] / size)  # (frequencies,): the characteristic function
    power = np.abs(waves) ** 2
    # below this power the square root below is not real: there is no self-consistent estimate
    drowned = np.flatnonzero(power < 4 * (size - 1) / size**2)
    last = int(drowned[0]) if drowned.size else power.size
    damped = np.zeros_like(waves)
    rest = 1 - 4 * (size - 1) / (size**2 * power[:last])
    damped[:last] = waves[:last] * size / (2 * (size - 1)) * (1 + np.sqrt(np.maximum(rest, 0.0)))
    smooth = np.fft.irfft(damped, _GRID) / step  # (grid,): the density
    return np.interp(points, low + step * np.arange(_GRID), smooth)


def _source(model: Any, length: int | None) -> SeriesSource:
    if isinstance(model, MultivariateGaussian):
        return GaussianSource(model)
    if not isinstance(model, MarkovChain):
        raise NotSupported(
            f"empirical leakages are estimated on a MarkovChain or a MultivariateGaussian, not on "
            f"a {type(model).__name__}"
        )
    records = model.length if length is None else check_count(length, "length", 2)
    if records is None:
        raise InvalidInput("the chain has no length; say how many records: length=10")
    return ChainSource(model, records)


def _answer(noise: Laplace, source: SeriesSource) -> Callable[[Any], Array]:
    """Return the query without noise, many series at once."""
    query = noise.query
    states = source.chain.states if isinstance(source, ChainSource) else ()
    if query.named and states:
        counted = np.array([float(state in query.named) for state in states])
        return lambda series: np.asarray(counted[series].sum(axis=1))
    if not isinstance(query, Sum | Mean | Linear):
        raise NotSupported(
            f"empirical leakages are estimated for a Count, Sum, Mean or Linear, not for a "
            f"{type(query).__name__} of such records"
        )
    numbers = dict(query.valued(states).values or ())
    values = np.array([numbers[state] for state in states]) if states else None
    low, high = (-math.inf, math.inf) if isinstance(query, Linear) else (query.lower, query.upper)

    def answer(series: Any) -> Array:
        records = np.clip(series if values is None else values[series], low, high)
        if isinstance(query, Linear):
            return np.asarray(records @ np.atleast_2d(query.weights)[0])
        return np.asarray(records.mean(axis=1) if isinstance(query, Mean) else records.sum(axis=1))

    return answer


def _adversary(
    source: SeriesSource, noise: Laplace, generator: np.random.Generator
) -> tuple[Draw, Draw]:  # fmt: skip
    """Return how to draw under either value of a random target, given random known records."""
    records = source.length
    for _ in range(_AGAIN):
        order = generator.permutation(records)
        target, known = int(order[0]), order[1 : 1 + int(generator.integers(records))]
        values: Any
        facts: dict[int, Any]
        if isinstance(source, ChainSource):
            values = generator.choice(len(source.chain.states), 2, replace=False)
            facts = {int(r): int(generator.integers(len(source.chain.states))) for r in known}
        else:
            values = generator.uniform(*_range(noise, source, target), 2)
            drawn = source.given({target: float(values[0])})(1, generator)[0]
            facts = {int(r): float(drawn[r]) for r in known}
        try:
            one, two = (source.given({**facts, target: value.item()}) for value in values)
        except InvalidInput:  # values that cannot occur together: another adversary
            continue
        return one, two
    raise NotSupported(
        "hardly any values of this chain can occur together: no random adversary was found; audit "
        "a plan instead"
    )


def _range(noise: Laplace, source: SeriesSource, target: int) -> tuple[float, float]:
    query = noise.query
    if query.ends is not None and query.records is None:
        return query.ends
    if isinstance(query, Linear) and isinstance(source, GaussianSource):
        middle = float(source.model.mean[target])
        return middle - query.spread / 2, middle + query.spread / 2
    raise NotSupported(f"a {type(query).__name__} of Gaussian records has no range of values")
