"""Figure 2 of [wang2016]: the error of a histogram by epsilon, pi, gap and length."""

import math
from functools import partial

import numpy as np

import undertow as ut
from undertow.bounds.channels.quilts import (
    Influence,
    NoiseScore,
    approximate_influence,
    pruned_search,
    spectral_gap,
)
from undertow.numerics import Array
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Parts
from undertow_papers.registry import Setting, printed, result

__all__ = ["fig2a", "fig2b", "fig2c", "printed_sigma", "random_reversible", "sharper_sigma"]

STATES = 5
LOGS = tuple(float(power) for power in np.linspace(1.0, 3.5, 11))

NO_CURVE = (
    "The text of the paper has the axes and legends of Figure 2 but no values: the curves are "
    "recomputed from Lemma 4.7 and Algorithm 1, and the highest of them is held against the "
    "highest tick."
)


def printed_sigma(pi: float, gap: float, length: int, epsilon: float, reach: int = 700) -> float:
    """Return the scale of the middle record by the formulas of Algorithm 2, written out again.

    min over a, b > ln(1/pi)/g of (a + b - 1) / (epsilon - e(a, b)), and T / epsilon.
    """
    first = math.floor(math.log(1 / pi) / gap) + 1
    last = min(reach, length // 2 - 1)
    steps = np.arange(first, last + 1.0)
    decay = np.exp(-gap * steps)
    once = np.log((pi + decay) / (pi - decay))
    room = epsilon - (2 * once[:, None] + once[None, :])
    local = steps[:, None] + steps[None, :] - 1
    scores = np.where(room > 0, local / np.where(room > 0, room, 1.0), np.inf)
    return float(min(scores.min(), length / epsilon))


def sharper_sigma(
    pi: float, gap: float, length: int, epsilon: float, stationary: bool = False
) -> float:
    """Return the scale with (1 - g)^t in place of e^{-g t}, for any start or a stationary one.

    Lemma A.1 is proved with the power of the second eigenvalue and then rounded up to e^{-g t}.
    The factor 2 of Lemma A.3 is that of an arbitrary start: the reversal of a stationary chain
    has the same pi and gap, so that the left side obeys Lemma A.2 as well.
    """

    def table(steps: int) -> Influence:
        score = approximate_influence(pi, -math.log1p(-gap), steps)
        return Influence(score.right, score.right) if stationary else score

    return pruned_search(table, length, NoiseScore(epsilon)).value


def random_reversible(
    size: int, pi_min: float, gap: float, rng: np.random.Generator
) -> ut.MarkovChain:
    """Return a random reversible chain with at least the given least probability and gap.

    Symmetric weights w make P(x, y) = w(x, y) / w(x), which is reversible with pi ~ w(x).
    """
    while True:
        weights = rng.gamma(0.5, size=(size, size))
        weights = weights + weights.T + np.diag(rng.gamma(2.0, size=size) * size)
        chain = ut.MarkovChain(weights / weights.sum(axis=1, keepdims=True))
        if chain.initial.min() >= pi_min and spectral_gap(chain)[0] >= gap:
            return chain


def _sigma(pi: float, gap: float, length: int, epsilon: float) -> float:
    """Return the scale per unit of sensitivity that `calibrate` finds for the whole class."""
    model = ut.MarkovChain.mixing(states=STATES, pi_min=pi, gap=gap, length=length)
    plan = ut.calibrate(ut.Histogram(), model, epsilon, "ignorant", method="quilt-approx")
    return plan.noise.amount / 2  # a replaced record changes two bins


def _error(sigma: float, length: int) -> float:
    """Return the expected L1 error of the frequencies: 2 k sigma / T."""
    return 2 * STATES * sigma / length


def _panel(
    item: str, cases: list[tuple[str, float, float, int]], ylim: tuple[float, float]
) -> Parts:
    """Yield the comparison of every curve at three levels, and the figure."""
    theirs, sharper, highest, falls = [], [], 0.0, -math.inf
    for label, pi, gap, length in cases:
        paper = [_error(printed_sigma(pi, gap, length, math.exp(p)), length) for p in LOGS]
        for power, error in list(zip(LOGS, paper, strict=True))[::4]:
            ours = _error(_sigma(pi, gap, length, math.exp(power)), length)
            name = f"L1 error, {label}, log epsilon {power:g}"
            yield Compared(name, ours, error, 1e-9 * error, "derived")
        best = [_error(sharper_sigma(pi, gap, length, math.exp(p)), length) for p in LOGS]
        theirs.append(Trace(label, LOGS, tuple(paper), "theirs"))
        sharper.append(Trace(label, LOGS, tuple(best)))
        highest = max(highest, *paper)
        falls = max(falls, float(np.diff(paper).max()))
    top = printed("wang2016")[item]["top"]
    yield Compared("the highest curve at its start, by the ticks of the axis", highest,
                   top["value"], top["reading_error"], "digitised")  # fmt: skip
    yield Claim("the error falls as epsilon grows (largest step)", falls, 0.0)
    _, pi, gap, length = cases[0]
    for power, stationary in ((1.0, False), (3.0, False), (1.0, True)):
        start = "a stationary start" if stationary else "any start"
        yield Improved(f"L1 error at log epsilon {power:g}, {cases[0][0]}, by (1 - g)^t, {start}",
                       _error(sharper_sigma(pi, gap, length, math.exp(power), stationary), length),
                       _error(printed_sigma(pi, gap, length, math.exp(power)), length))  # fmt: skip
    panels = tuple(
        Panel(title, "log(epsilon)", "L1 error", tuple(lines), xlim=(1.0, 3.5), ylim=ylim)
        for title, lines in (("as published", theirs), ("by (1 - g)^t, same guarantee", sharper))
    )
    yield Chart(f"wang2016-{item}", f"Figure {item[3:]} of wang2016", panels, NO_CURVE)
    yield NO_CURVE


def _simulated(setting: Setting, length: int) -> Parts:
    """Return the mean error of repeated releases on drawn data, beside its expectation.

    A null of 4 deviations of the mean: a false alarm in 16,000 runs.
    """
    values, rng = printed("wang2016")["fig2"], np.random.default_rng(setting.seed)
    chain = random_reversible(STATES, values["pi_gen"], values["gap_gen"], rng)
    start = rng.dirichlet(np.ones(STATES))
    repeats = values["repeats"]
    for power in (1.0, 3.0):
        sigma = _sigma(values["pi_gen"], values["gap_gen"], length, math.exp(power))
        errors = []
        for _ in range(repeats):
            truth = _frequencies(chain.transition, start, length if not setting.quick else 200, rng)
            noisy = truth + rng.laplace(0.0, 2 * sigma / length, STATES)
            errors.append(np.abs(noisy - truth).sum())
        expected = _error(sigma, length)
        deviation = expected / math.sqrt(STATES * repeats)
        name = f"mean of {repeats} simulated releases, log epsilon {power:g}"
        yield Compared(name, float(np.mean(errors)), expected, 4 * deviation, "derived")


def _frequencies(
    matrix: Array, start: Array, length: int, rng: np.random.Generator
) -> Array:  # fmt: skip
    """Return the histogram of one drawn series, as frequencies."""
    steps = np.cumsum(matrix, axis=1)
    draws = rng.random(length)
    state = int(np.searchsorted(np.cumsum(start), draws[0]))
    counts = np.zeros(len(matrix))
    for draw in draws:
        state = min(int(np.searchsorted(steps[state], draw)), len(matrix) - 1)
        counts[state] += 1
    return np.asarray(counts / length)


@result("wang2016", "fig2a", "Error of a histogram by epsilon, for five estimates of pi")
def fig2a(setting: Setting) -> Parts:
    """Recompute Figure 2a: 2 k sigma / T for k = 5, g = .1, T = 5000."""
    given = printed("wang2016")["fig2a"]
    cases = [(f"pi {pi:g}", pi, given["gap"], given["length"]) for pi in given["pi"]]
    yield from _panel("fig2a", cases, (0.0, 0.13))
    errors = [printed_sigma(pi, given["gap"], given["length"], math.e) for pi in given["pi"]]
    yield Claim("a larger pi costs less noise (largest step)", -float(np.diff(errors).min()), 0.0)
    yield from _simulated(setting, given["length"])
    yield "The error is that of the noise alone: it does not depend on the data."


@result("wang2016", "fig2b", "Error of a histogram by epsilon, for six estimates of the gap")
def fig2b(setting: Setting) -> Parts:
    """Recompute Figure 2b: 2 k sigma / T for k = 5, pi = .05, T = 5000."""
    given = printed("wang2016")["fig2b"]
    cases = [(f"gap {gap:g}", given["pi"], gap, given["length"]) for gap in given["gap"]]
    yield from _panel("fig2b", cases, (0.0, 0.21))
    sigma = partial(printed_sigma, length=given["length"], epsilon=math.e)
    errors = [sigma(given["pi"], gap) for gap in given["gap"]]
    yield Claim("a larger gap costs less noise (largest step)", -float(np.diff(errors).min()), 0.0)
    yield Claim("pi matters less than the gap: half of pi against half of the gap (factor of "
                "noise)", sigma(0.025, 0.1) / sigma(0.05, 0.1),
                sigma(0.05, 0.05) / sigma(0.05, 0.1))  # fmt: skip


@result("wang2016", "fig2c", "Error of a histogram by epsilon, for five lengths")
def fig2c(setting: Setting) -> Parts:
    """Recompute Figure 2c: 2 k sigma / T for k = 5, pi = .05, g = .1."""
    given = printed("wang2016")["fig2c"]
    cases = [(f"T {length}", given["pi"], given["gap"], length) for length in given["length"]]
    yield from _panel("fig2c", cases, (0.0, 0.5))
    errors = [
        _error(printed_sigma(given["pi"], given["gap"], length, math.e), length)
        for length in given["length"]
    ]
    yield Claim("longer series have smaller errors (largest step)", float(np.diff(errors).max()),
                0.0)  # fmt: skip
