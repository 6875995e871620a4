"""How samples are judged: two tests whose false-alarm rates are known, and exact laws.

`excess` rests on the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, valid for
every law and sample size: Pr[sup |F_n - F| > t] <= 2 exp(-2 n t^2). The same inequality bounds the
probability that a wrong law passes: at most `alarm` once the two laws are twice the limit apart.
`chi_square` is asymptotic; bins are pooled to an expectation of FEW and tests that use it ask for
less than 1e-8 where they guarantee 1e-6.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

FEW = 50.0


def laplace_pmf(z: int, scale: float) -> float:
    """Pr[Z = z] for discrete Laplace noise: (1 - r) / (1 + r) r^|z| with r = e^(-1/scale)."""
    return math.tanh(0.5 / scale) * math.exp(-abs(z) / scale)


def laplace_cdf(z: int, scale: float) -> float:
    """Pr[Z <= z], summed as a geometric series."""
    ratio = math.exp(-1 / scale)
    if z < 0:
        return ratio**-z / (1 + ratio)
    return 1 - ratio ** (z + 1) / (1 + ratio)


def limit(size: int, alarm: float = 1e-6) -> float:
    """The distance that `size` samples exceed with a probability of at most `alarm`."""
    return math.sqrt(math.log(2 / alarm) / (2 * size))


def distance(sample: Sequence[int], cdf: Callable[[int], float]) -> float:
    """sup over integers of |F_n - F|; beyond the sample the supremum is at its ends."""
    values, counts = np.unique(np.asarray(sample), return_counts=True)
    below, worst = 0.0, 0.0
    for value, share in zip(values, counts / len(sample), strict=True):
        worst = max(worst, abs(cdf(int(value) - 1) - below))
        below += float(share)
        worst = max(worst, abs(cdf(int(value)) - below))
    return worst


def excess(sample: Sequence[int], scale: float, centre: int = 0) -> float:
    """How far a sample lies from discrete Laplace noise, in units of the 1e-6 limit."""
    return distance(sample, lambda z: laplace_cdf(z - centre, scale)) / limit(len(sample))


def chi_square(observed: Iterable[float], probabilities: Iterable[float]) -> float:
    """The p-value of Pearson's test; 0 if something impossible was seen."""
    counts = np.asarray(list(observed), dtype=np.float64)
    law = np.asarray(list(probabilities), dtype=np.float64)
    if counts[law == 0].any():
        return 0.0
    expected = counts.sum() * law
    order = np.argsort(-expected, kind="stable")
    seen, awaited = counts[order], expected[order]
    kept = max(int((awaited >= FEW).sum()), 1)
    seen = np.append(seen[:kept], seen[kept:].sum())
    awaited = np.append(awaited[:kept], awaited[kept:].sum())
    if awaited[-1] < FEW and len(awaited) > 2:
        seen, awaited = _joined(seen), _joined(awaited)
    use = awaited > 0
    statistic = float(((seen[use] - awaited[use]) ** 2 / awaited[use]).sum())
    return float(stats.chi2.sf(statistic, max(int(use.sum()) - 1, 1)))


def laplace_p_value(sample: Sequence[int], scale: float, centre: int = 0) -> float:
    """The chi-square p-value of a sample of integers against discrete Laplace noise.

    Bins are single integers for small scales and a tenth of the scale wide for large ones.
    """
    width = max(1, int(scale / 10))
    reach = max(1, math.ceil(scale / width * math.log(len(sample))))
    edges = [width * bin_ - 1 for bin_ in range(-reach, reach + 2)]
    below = [0.0, *(laplace_cdf(edge, scale) for edge in edges), 1.0]
    bins = np.clip((np.asarray(sample) - centre) // width, -reach - 1, reach + 1) + reach + 1
    return chi_square(np.bincount(bins, minlength=len(below) - 1), np.diff(below))


def _joined(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.append(parts[:-2], parts[-2] + parts[-1])
