"""What a private fit costs: the noise of the answer after it beside that of the known chain.

``python -m benchmarks.private_fits``. Simulated fits of the activity chain at a limit of 1 against
any: for each level of the fit and confidence, quartiles of (budget of the known chain) / (budget of
the region less the level of the fit), which is the factor by which a count's noise grows; and the
share of regions that hold the true chain.
"""

import math
import sys

import numpy as np

import undertow as ut
from undertow.models.fitting.private import PrivateFit
from undertow.numerics import Array

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
CLASS = ut.MarkovChain.box([[0.6, 0.05], [0.1, 0.4]], [[0.95, 0.4], [0.6, 0.9]])
LIMIT = 1.0


def noisy_tables(records: int, scale: float, fits: int, seed: int) -> Array:
    """Return noisy transition tables of simulated series, (fits, 2, 2)."""
    generator = np.random.default_rng(seed)
    edges, law = ACTIVITY.transition[:, 1], ACTIVITY.initial
    now = (generator.random(fits) < law[1]).astype(np.int64)
    counts, row = np.zeros((fits, 2, 2)), np.arange(fits)
    after_one = np.array([edges[0], ACTIVITY.transition[1, 1]])  # Pr[next is 1 | now]
    for _ in range(records - 1):
        after = (generator.random(fits) < after_one[now]).astype(np.int64)
        counts[row, now, after] += 1
        now = after
    stop = -math.expm1(-1 / scale)
    return np.asarray(
        counts + generator.geometric(stop, counts.shape) - generator.geometric(stop, counts.shape)
    )


def growth(table: Array, level: float, records: int, confidence: float) -> tuple[float, bool]:
    """Return the factor by which noise grows (inf where nothing is left), and whether it held."""
    fit = PrivateFit(
        table,
        level=level,
        scale=4 / level,
        sample_size=records,
        confidence=confidence,
        within=CLASS,
    )
    region = fit.region()
    truth = ACTIVITY.transition
    held = bool(((region.lower <= truth) & (truth <= region.upper)).all())
    left = ut.dp_budget(region, LIMIT) - level
    known = ut.dp_budget(ACTIVITY, LIMIT)
    return (known / left if left > 0 else math.inf), held


def main(fits: int) -> None:
    """Print the table."""
    print(
        f"class affords {ut.dp_budget(CLASS, LIMIT):.4f}, chain {ut.dp_budget(ACTIVITY, LIMIT):.4f}"
    )
    print("records  level  confidence  quartiles of the factor   held")
    for records, level, confidence in [
        (10_000, 0.05, 0.95), (10_000, 0.06, 0.95), (10_000, 0.07, 0.95), (10_000, 0.06, 0.9),
        (5_000, 0.08, 0.95), (20_000, 0.04, 0.95), (100_000, 0.015, 0.95),
    ]:  # fmt: skip
        tables = noisy_tables(records, 4 / level, fits, seed=1)
        found = [growth(table, level, records, confidence) for table in tables]
        quartiles = np.quantile([factor for factor, _ in found], [0.25, 0.5, 0.75])
        held = np.mean([held for _, held in found])
        shown = "  ".join(f"{value:6.3f}" for value in quartiles)
        print(f"{records:7d}  {level:5.3f}  {confidence:10g}  {shown}   {held:.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
