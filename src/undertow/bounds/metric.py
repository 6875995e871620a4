"""Metric privacy on records with states: through the DP level of their spread."""

from dataclasses import replace

from undertow.certificate import Leakage
from undertow.errors import NotSupported
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.base import Model
from undertow.numerics import up

__all__ = ["by_spread", "refused", "spread_level"]


def refused(mechanism: Levelled | MetricDP) -> Levelled:
    """Return the mechanism, or refuse one that only numbers have."""
    if isinstance(mechanism, MetricDP):
        raise NotSupported(
            "metric privacy needs to know how far two values lie apart; use a MarkovChain whose "
            "states are numbers, or PureDP(rate * spread)"
        )
    return mechanism


def spread_level(mechanism: MetricDP, model: Model) -> PureDP:
    """Return the DP level of metric privacy: the rate times the spread of the states.

    >>> from undertow.models.chains import MarkovChain
    >>> spread_level(MetricDP(.25), MarkovChain([[.5, .5], [.5, .5]], states=(0, 4))).epsilon >= 1
    True
    """
    try:
        values = [float(state) for state in model.states]  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise NotSupported(
            "metric privacy measures how far two values lie apart; name the states by numbers, "
            "e.g. states=(0, 1, 2)"
        ) from error
    return PureDP(up(mechanism.dp_epsilon(max(values) - min(values))))


def by_spread(leak: Leakage, model: Model) -> Leakage:
    """Return the leakage of a metric level from that of its DP level.

    Two states are no nearer to each other than their spread, so nothing is lost there; with more
    only the upper end is claimed.
    """
    note = "two values of a record lie at most their largest difference apart"
    leak = replace(leak, assumptions=(*leak.assumptions, note))
    return leak if len(model.states) == 2 else leak.upper_only()
