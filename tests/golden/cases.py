"""What the golden file holds: every kind of model, mechanism and adversary, and plans of each kind.

On one machine a change of structure must not change a bit of it: ``python -m tests.golden``.
"""

import json
from collections.abc import Iterator
from typing import Any

import undertow as ut
from tests import plan_gallery as gallery
from undertow.errors import UndertowError
from undertow.models.contagion import Contagion
from undertow.plan_format import leakage_to_dict

P, NAMES = gallery.P, gallery.NAMES
UP, DOWN = [[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.6, 0.4]]
WILD = [[0.07, 0.91, 0.02], [0.11, 0.02, 0.87], [0.39, 0.02, 0.59]]
LINE = ut.BayesianNetwork(
    [("a", "b"), ("b", "c"), ("c", "d")],
    {"a": [0.7, 0.3], "b": UP, "c": DOWN, "d": UP},
    states=("well", "ill"),
)
FAMILY = ut.Pedigree(
    {"kim": ("bob", "ann"), "lee": ("bob", "ann")}, allele_frequency=0.2, latent=["ann"]
)

CHAINS: dict[str, ut.MarkovChain] = {
    "activity": gallery.LONG,
    "activity of 5": gallery.SHORT,
    "start elsewhere": ut.MarkovChain(UP, start=[1.0, 0.0], length=7),
    "negative": ut.MarkovChain(DOWN, length=6),
    "negative endless": ut.MarkovChain(DOWN),
    "three states": gallery.THREE,
    "wild of 6": ut.MarkovChain(WILD, length=6),
    "steps": gallery.STEPS,
    "with zeros": ut.MarkovChain([[0.0, 1.0], [0.5, 0.5]], length=5),
    "numbers": ut.MarkovChain(P, states=(0, 5), length=4),
    "independent": ut.MarkovChain([[0.4, 0.6], [0.4, 0.6]], length=3),
}
NETWORKS: dict[str, Any] = {
    "star": gallery.NET,
    "line": LINE,
    "exclusive or": gallery.XOR,
    "trio": gallery.TRIO,
    "family": FAMILY,
    "frequency interval": ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=(0.05, 0.5)),
    "household": Contagion(3, 0.1, (0.1, 0.5)),
}
CLASSES: dict[str, Any] = {
    "groups": ut.Groups(4),
    "box": gallery.BOX,
    "mixing": ut.MixingClass(2, 0.2, 0.5, 50),
    "set": gallery.SET,
}
NUMBERS: dict[str, Any] = {"pair": gallery.PAIR, "bounded": gallery.CLASS}
AGAINST: dict[str, Any] = {
    "any": "any",
    "ignorant": "ignorant",
    "informed": "informed",
    "adversary": ut.Adversary(1, [0, 2]),
}
"""Record 2 is there in every model but two."""

FLIPS = ut.RandomizedResponse.binary(0.2, 0.35)


def questions() -> Iterator[tuple[str, Any, Any, Any, dict[str, Any]]]:
    """Yield a name, a mechanism, a model, an adversary, and options of `leakage`."""
    mechanism: Any
    for name, chain in CHAINS.items():
        noises: list[tuple[str, Any]] = [("level", ut.PureDP(0.7)), ("much", ut.PureDP(3.0))]
        one = ut.Count(chain.states[-1])
        noises += [("count", ut.DiscreteLaplace(one, 1.5)), ("sharp", ut.Laplace(one, 0.4))]
        noises += [("histogram", ut.DiscreteLaplace(ut.Histogram(), 2.0))]
        if chain.size == 2:
            noises += [("flips", FLIPS), ("xor", ut.XorNoise(0.3, 0.4))]
        for noise, mechanism in noises:
            yield from _asked(f"{name}: {noise}", mechanism, chain)
        if chain.length is not None and chain.length > 3:
            erased = [
                [0.9 if record in (1, 2) else 0.1] * chain.size for record in range(chain.length)
            ]
            erased[1] = [1.0] * chain.size
            yield from _asked(f"{name}: erased", ut.Redaction(erased, protect=[1]), chain)
        count = ut.DiscreteLaplace(one, 2.5)
        for covers in ("windows", "any"):
            yield f"{name}: {covers}", count, chain, "any", {"covers": covers}
    metric = ut.MetricDP(0.2)
    yield from _asked("numbers: metric", metric, CHAINS["numbers"])
    for name, model in NETWORKS.items():
        state = ut.Count(model.states[-1])
        for noise, mechanism in (
            ("level", ut.PureDP(0.7)),
            ("count", ut.DiscreteLaplace(state, 1.5)),
            ("histogram", ut.DiscreteLaplace(ut.Histogram(), 2.0)),
        ):
            yield from _asked(f"{name}: {noise}", mechanism, model)
        if len(model.states) == 2:
            yield from _asked(f"{name}: flips", FLIPS, model)
    for name, model in CLASSES.items():
        state = ut.Count("active" if name in ("box", "set") else 1)
        for noise, mechanism in (
            ("level", ut.PureDP(0.7)), ("count", ut.DiscreteLaplace(state, 1.5)),
        ):  # fmt: skip
            yield from _asked(f"{name}: {noise}", mechanism, model)
    for name, model in NUMBERS.items():
        records = model.length
        total = ut.Linear([1.0] * records, spread=10.0)
        for noise, mechanism in (
            ("metric", metric),
            ("sum", ut.Laplace(total, 30.0)),
            ("clipped", ut.Laplace(ut.Sum(0, 10), 30.0)),
        ):
            yield from _asked(f"{name}: {noise}", mechanism, model)
    yield "person", ut.PureDP(0.5, unit="person"), gallery.SHORT, "any", {}


def _asked(
    name: str, mechanism: Any, model: Any
) -> Iterator[tuple[str, Any, Any, Any, dict[str, Any]]]:
    for who, against in AGAINST.items():
        yield f"{name}: {who}", mechanism, model, against, {}


def answered(mechanism: Any, model: Any, against: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate, or the refusal."""
    try:
        return leakage_to_dict(ut.leakage(mechanism, model, against, **options))
    except UndertowError as error:
        return {"refused": type(error).__name__}


def planned(args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the plan as in its file, without the checksum."""
    told = json.loads(ut.calibrate(*args, **options).to_json())
    return {name: value for name, value in told.items() if name != "checksum"}


PLANS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{name: (asked, {}) for name, asked in gallery.ASKED.items()},
    **gallery.MORE,
    "best count": ((gallery.ACTIVE, gallery.LONG, 1.0), {}),
    "best windows": ((ut.Count(0), CHAINS["negative"], 2.0), {"covers": "windows"}),
    "best histogram": ((ut.Histogram(), gallery.THREE, 1.0), {}),
    "best network": ((ut.Count("ill"), LINE, 1.0), {}),
    "best family": ((ut.Count("BB"), FAMILY, 1.0), {}),
    "best household": ((ut.Count("ill"), Contagion(3, 0.1, (0.1, 0.5)), 1.0), {}),
    "best sum": ((ut.Sum(0, 10), gallery.PAIR, 1.0), {}),
    "best flips": ((ut.Series(), ut.MarkovChain(DOWN, length=6), 2.0), {}),
    "best box": ((gallery.ACTIVE, gallery.BOX, 1.0), {}),
}
