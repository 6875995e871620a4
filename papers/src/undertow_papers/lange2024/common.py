"""What the results of lange2024 share: printed values, grids, methods side by side."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import undertow as ut
from undertow.certificate import Leakage
from undertow.mechanisms import noisy
from undertow.rounding import above
from undertow_papers.findings import Listing
from undertow_papers.registry import printed

__all__ = [
    "ACTIVITY",
    "KEY",
    "grid",
    "plain_noise",
    "shown",
    "shown_values",
    "utility_table",
]

KEY = "lange2024"
"""The key of the thesis."""

ACTIVITY = ((0.882, 0.118), (0.305, 0.695))
"""The chain of section 8.4.3, as printed: from inactive, from active."""

_HEAD = ("epsilon", "method", "scale", "error", "mse", "cost", "leaks", "protects", "guarantee")

_LABELS = {
    "exact": "exact",
    "exchange": "exact (exchange)",
    "quilt": "MQM",
    "quilt-approx": "MQM approximate",
    "wasserstein": "Wasserstein",
    "group": "group",
    "dependent": "dependent",
    "lange": "lange",
    "zhao": "zhao",
    "zhao-multistep": "zhao, several steps",
    "gaussian-bound": "lange",
    "optimal": "least noise",
    "influence-curve": "influence curve",
    "temporal": "temporal privacy leakage",
}


def shown_values(item: str) -> dict[str, Any]:
    """Return what is printed about one item."""
    printed_values: dict[str, Any] = printed(KEY)[item]
    return printed_values


def grid(low: float, high: float, points: int) -> tuple[float, ...]:
    """Return equally spaced numbers as a tuple, both ends included."""
    return tuple(float(value) for value in np.linspace(low, high, points))


def shown(number: float | None) -> str:
    """Return a number for a table, or a dash."""
    return "-" if number is None else f"{number:.5g}"


def plain_noise(query: Any, epsilon: float, records: int | None) -> Any:
    """Return the noise of plain differential privacy: sensitivity / epsilon, no dependence."""
    return noisy(query, query.sensitivity(records) / epsilon)


def utility_table(
    title: str,
    query: Any,
    model: Any,
    epsilons: Iterable[float],
    *,
    methods: Sequence[str] | None = None,
    absent: Sequence[str] = (),
) -> Listing:
    """Return all methods at some epsilons: noise, error, cost against plain DP, what it leaks.

    ``cost`` is the expected error divided by that of plain DP; ``leaks`` the certified leakage
    against any adversary. ``absent`` names methods that say nothing about this kind of model.
    """
    rows: list[tuple[str, ...]] = []
    for epsilon in epsilons:
        plain = plain_noise(query, epsilon, model.length)
        base = plain.expected_error()
        truth = ut.leakage(plain, model)
        rows.append(_row(epsilon, "plain DP", plain, base, truth, "informed"))
        for row in ut.compare(query, model, epsilon, methods=methods):
            label = _LABELS[row.method]
            if row.plan is None:
                rows.append((shown(epsilon), label, *("-" for _ in _HEAD[2:-1]), "no answer"))
                continue
            rows.append(
                _row(epsilon, label, row.plan.mechanism, base, row.leakage, str(row.protects))
            )
        rows += [(shown(epsilon), name, *("-" for _ in _HEAD[2:-1]), "not for this model")
                 for name in absent]  # fmt: skip
    return Listing(title, _HEAD, tuple(rows))


def _row(
    epsilon: float, label: str, noise: Any, base: float, leak: Leakage | None, protects: str
) -> tuple[str, ...]:
    """Return one line of a table, all numbers as text."""
    error = noise.expected_error()
    kept = "unknown"
    if leak is not None:
        kept = "kept" if leak.proves(epsilon) else "broken" if leak.lower > epsilon else "open"
    return (
        shown(epsilon),
        label,
        shown(getattr(noise, "scale", None)),  # a table of probabilities has none
        shown(error),
        shown(noise.variance()),
        shown(error / base),
        "?" if leak is None else above(leak.upper, 4),
        protects,
        kept,
    )
