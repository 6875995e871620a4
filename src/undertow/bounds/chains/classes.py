"""What every mechanism leaks on a class of chains: through the level of the algorithm."""

from dataclasses import replace

from undertow.adversaries import Against
from undertow.bounds.chains.boxes import box_leakage
from undertow.bounds.chains.quilt import Bound, approximate_influence, pruned_search
from undertow.bounds.groups import group_leakage
from undertow.bounds.metric import by_spread, refused, spread_level
from undertow.certificate import Leakage
from undertow.errors import NotSupported
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.chain_classes import ChainBox, MixingClass
from undertow.numerics import up

__all__ = ["leakage", "window_leakage"]


def leakage(
    mechanism: Levelled | MetricDP, model: ChainBox | MixingClass, against: Against
) -> Leakage:
    """Return the worst case over a class of chains.

    >>> leakage(PureDP(1.0), MixingClass(2, 0.2, 0.5, 50), "ignorant").method
    'quilt-approx'
    """
    if isinstance(model, MixingClass):
        return _mixing(refused(mechanism), model, against)
    if isinstance(mechanism, MetricDP):
        return by_spread(leakage(spread_level(mechanism, model), model, against), model)
    found = box_leakage(mechanism.level_upper(model.length), model, against)
    return found if isinstance(mechanism, PureDP) else replace(found, lower=0.0, witness=None)


def window_leakage(
    level: float, model: ChainBox | MixingClass, against: Against, window: int
) -> Leakage:
    """Return what all algorithms of a DP level leak about a window, on any chain of a class.

    >>> box = ChainBox([[.87, .11], [.29, .68]], [[.89, .13], [.32, .71]])
    >>> 4.66 < window_leakage(1.0, box, "any", 2).upper < 4.67
    True
    """
    if isinstance(model, MixingClass):
        if against != "informed" and model.length is None:
            raise NotSupported(
                "how fast a chain mixes says nothing about a window of records; give the class a "
                "length, or the chain itself"
            )
        # whoever knows all others: the window; else every record of the series, whatever they do
        size = window if against == "informed" else model.length or window
        found = group_leakage(PureDP(level), size, "any", model.length)
        return replace(found, against=against, lower=0.0, assumptions=(model.describe(),))
    return box_leakage(level, model, against, window)


def _mixing(mechanism: Levelled, model: MixingClass, against: Against) -> Leakage:
    if against == "informed" or (against != "ignorant" and model.length is not None):
        size = 1 if against == "informed" else model.length or 1
        return replace(group_leakage(mechanism, size, against, model.length), lower=0.0)
    if against != "ignorant":
        raise NotSupported(
            "how fast a chain mixes bounds what an attacker learns who knows no other record; "
            "against one who knows some, give the class a length, or the chain itself"
        )
    quilt = pruned_search(
        lambda steps: approximate_influence(model.pi_min, model.gap, steps),
        model.length, Bound(mechanism.level_upper(model.length)),
    )  # fmt: skip
    return Leakage(
        0.0, up(quilt.value), "quilt-approx", against,
        assumptions=(model.describe(),), citation="Theorem 4.4 and Lemma 4.7 of [wang2016]",
    )  # fmt: skip
