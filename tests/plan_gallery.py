"""One plan of every kind that a file can hold: methods, models, adversaries, local plans."""

from functools import cache
from typing import Any

import undertow as ut
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.networks import Contagion

P = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
LONG = ut.MarkovChain(P, NAMES)
SHORT = ut.MarkovChain(P, NAMES, length=5)
THREE = ut.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]], ("a", "b", "c"))
STEPS = ut.MarkovChain([P, [[0.5, 0.5], [0.2, 0.8]]], NAMES, start=[0.5, 0.5])
DAYS = ut.MarkovChain.periodic({"night": P, "day": STEPS.transition[1]}, NAMES, length=5)
EVEN = ut.MarkovChain([[0.8, 0.2], [0.2, 0.8]], length=2)
PAIR = ut.MultivariateGaussian(5, [[1, 0.5], [0.5, 1]])
CLASS = ut.MultivariateGaussian.bounded(3, 0.275)
NET = ut.BayesianNetwork(
    [("ann", "bob"), ("ann", "eve")],
    {"ann": [0.9, 0.1], "bob": [[0.9, 0.1], [0.5, 0.5]], "eve": [[0.8, 0.2], [0.4, 0.6]]},
    states=("well", "ill"),
)
BIT = [0.5, 0.5]
XOR = ut.BayesianNetwork(
    [("a", "c"), ("b", "c")],
    {"a": BIT, "b": BIT, "c": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]},
    states=("well", "ill"),
)
TRIO = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.3)
SET = ut.ModelSet([SHORT, ut.Groups(2)], note="two good days")
BOX = ChainBox([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]], NAMES)
ACTIVE = ut.Count("active")


def ends(lower, upper):
    """Return values of the two states that are as far apart as a range allows."""
    return dict(zip(NAMES, (lower, upper), strict=True))


ASKED: dict[str, tuple[Any, ...]] = {
    "exact": (ACTIVE, LONG, 1.0, "any", "exact"),
    "exact steps": (ACTIVE, STEPS, 1.0, "any", "exact"),
    "exact adversary": (ACTIVE, SHORT, 2.0, ut.Adversary(1, [0, 3]), "exact"),
    "exact gaussian": (ut.Linear([1.0, 1.0], spread=10.0), PAIR, 1.0, "any", "exact"),
    "exact network": (ut.Count("ill"), NET, 1.0, "any", "exact"),
    "exact pedigree": (ut.Histogram(), TRIO, 1.0, "any", "exact"),
    "exchange": (ut.Histogram(), THREE, 0.5, "ignorant", "exchange"),
    "exchange top": (ut.TopK(2), THREE, 1.0, "any", "exchange"),
    "exchange mean": (ut.Mean(0, 200, ends(0, 200)), SHORT, 1.0, "any", "exchange"),
    "exchange sum": (ut.Sum(-1, 4.5, ends(-1, 4.5)), LONG, 1.0, "informed", "exchange"),
    "exchange gaussian": (ut.Sum(0, 10), PAIR, 1.0, "any", "exchange"),
    "exchange network": (ut.Histogram(), NET, 1.0, "any", "exchange"),
    "exchange box": (ACTIVE, BOX, 1.0, "any", "exchange"),
    "exchange set": (ACTIVE, SET, 1.0, "any", "exchange"),
    "quilt": (ACTIVE, SHORT, 3.0, "ignorant", "quilt"),
    "quilt network": (ut.Count("ill"), NET, 2.0, "any", "quilt"),
    "quilt-approx": (ut.Count(1), MixingClass(2, 0.2, 0.5, 50), 2.0, "ignorant", "quilt-approx"),
    "wasserstein": (ACTIVE, SHORT, 1.0, "ignorant", "wasserstein"),
    "wasserstein network": (ut.Count("ill"), NET, 1.0, "ignorant", "wasserstein"),
    "group": (ACTIVE, SHORT, 0.5, "any", "group"),
    "group contagion": (ut.Count("ill"), Contagion(3, 0.1, (0.1, 0.5)), 1.0, "any", "group"),
    "groups": (ut.Count("x"), ut.Groups(4), 1.0),
    "groups named": (ut.Histogram(), ut.Groups(4, NAMES), 1.0),
    "context": (ACTIVE, DAYS, 1.0),
    "dependent": (ut.Count(1), EVEN, 1.0, "any", "dependent"),
    "dependent baseline": (
        ut.Count("ill"), XOR, 1.0, "any", "dependent",
    ),
    "lange": (ACTIVE, SHORT, 20.0, "any", "lange"),
    "zhao": (ut.Histogram(), SHORT, 20.0, "any", "zhao"),
    "zhao-multistep": (ACTIVE, SHORT, 20.0, "any", "zhao-multistep"),
    "influence-curve": (ACTIVE, SHORT, 2.0, "ignorant", "influence-curve"),
    "temporal": (ACTIVE, SHORT, 2.0, "ignorant", "temporal"),
    "gaussian-bound": (
        ut.Sum(0, 200), ut.MultivariateGaussian([100, 87], [[225, 137], [137, 417]]), 1.0, "any",
        "gaussian-bound",
    ),
    "linear": (ut.Linear([1.0, 0.1, -2.0], 0.5, 0.0, ends(0, 0.5)), STEPS, 1.0),
    "flips": (ut.Series(), SHORT, 1.0),
    "flips of three": (ut.Series(), ut.MarkovChain(THREE.transition, length=4), 2.0),
    "flips exchange": (ut.Series(), SHORT, 1.0, "any", "exchange"),
    "flips silent": (ut.Series(), ut.MarkovChain([[0, 1], [1, 0]], start=[0.5, 0.5]), 1.0),
    "xor": (ut.Series(), SHORT, 1.0, "any", "xor"),
    "chakrabarti": (ut.Series(), SHORT, 1.0, "ignorant", "chakrabarti"),
    "redaction": (ut.Redacted(2, 5), SHORT, 1.0),
    "redaction 3r": (ut.Redacted(2, 9), LONG, 1.0, "ignorant", "3r-constant"),
    "redaction windows": (ut.Redacted([1, 6], 9), THREE, 1.0, "any", "mq"),
    "redaction printed": (ut.Redacted(4, 9), LONG, 1.0, "ignorant", "mq-printed"),
}  # fmt: skip
"""What is asked of `calibrate`, by name."""

MORE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "person": ((ACTIVE, SHORT, 0.5), {"secret": ut.Person()}),
    "person informed": (
        (ut.Sum(0, 1, ends(0, 1)), SHORT, 1.0, "informed"), {"secret": ut.Person()}
    ),
    "quilt secrets": (
        (ut.Histogram(), ut.MarkovChain(THREE.transition, THREE.states, length=9), 2.0, "any",
         "quilt"),
        {"secret": ut.Pairs([("a", "b")], [0, 4])},
    ),
    "wasserstein secrets": (
        (ACTIVE, SHORT, 1.0, "ignorant", "wasserstein"), {"secret": ut.Records([2])}
    ),
    "quilt-approx secrets": (
        (ACTIVE, SHORT, 3.0, "ignorant", "quilt-approx"), {"secret": ut.Records([0])}
    ),
}  # fmt: skip


def calibrated(asked: tuple[Any, ...], **options: Any) -> Any:
    """Return the plan of a query, a model, a limit, and perhaps an adversary and a method."""
    query, model, limit, *rest = asked
    against: Any = rest[0] if rest else "any"
    method = rest[1] if len(rest) > 1 else "best"
    return ut.calibrate(query, model, limit, against, method=method, **options)


@cache
def plan(name: str) -> "ut.Plan[Any]":
    """The plan of that name."""
    if name in ASKED:
        return calibrated(ASKED[name])
    args, options = MORE[name]
    return calibrated(args, **options)


EVERY = (*ASKED, *MORE)
