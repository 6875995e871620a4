"""The cases of the recorded baseline: every kind of model, mechanism, adversary, secret and plan.

A case has a name that stays, and a function that computes its answer. What is asked goes through
the small functions of the first part, so that a renamed option is changed in one place.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import undertow as ut
from tests import plan_gallery as gallery
from tests.golden.relation import Answer
from tests.golden.replay import replayed
from undertow.errors import UndertowError
from undertow.mechanisms import TabulatedNoise
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.networks import Contagion

P, NAMES = gallery.P, gallery.NAMES
UP, DOWN = [[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.6, 0.4]]
WILD = [[0.07, 0.91, 0.02], [0.11, 0.02, 0.87], [0.39, 0.02, 0.59]]
RISING = [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]]
FALLING = [[[0.3, 0.7], [0.6, 0.4]], [[0.5, 0.5], [0.8, 0.2]]]
REGIMES = [[0.97, 0.02, 0.005, 0.005], [0.3, 0.4, 0.25, 0.05], [0.05, 0.25, 0.4, 0.3],
           [0.005, 0.005, 0.02, 0.97]]  # fmt: skip
STAIRS = [[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.05, 0.15, 0.8]]
LINKED = [[1.0, 0.4, 0.1], [0.4, 2.0, -0.3], [0.1, -0.3, 1.5]]


@dataclass(frozen=True)
class Case:
    """A named question. ``soak``: only `make soak` asks it, because it takes seconds."""

    name: str
    ask: Callable[[], Answer]
    soak: bool = False


# --- models ---------------------------------------------------------------------------------------


def chain(
    transition: Any, states: Any = None, start: Any = "stationary", length: Any = None
) -> Any:
    """Return a Markov chain."""
    return ut.MarkovChain(transition, states, start, length)


def periodic(length: int) -> Any:
    """Return a chain with two public contexts in turn, three records of each."""
    return ut.MarkovChain.periodic(
        {"night": P, "day": [[0.5, 0.5], [0.2, 0.8]]}, NAMES, steps_per=3, length=length
    )


def second_order(tensor: Any, length: int | None = None) -> Any:
    """Return a chain of order two."""
    return ut.MarkovChain.second_order(tensor, length=length)


def hidden(transition: Any, symbols: Any, length: int | None = None) -> Any:
    """Return a hidden chain."""
    return ut.HiddenChain(transition, symbols, length=length)


def box(length: int | None = None) -> Any:
    """Return a class of chains with intervals for their transitions."""
    return ChainBox(gallery.BOX.lower, gallery.BOX.upper, NAMES, length=length)


def network(edges: Any, tables: Any) -> Any:
    """Return a network of people who are well or ill."""
    return ut.BayesianNetwork(edges, tables, states=("well", "ill"))


def pedigree(parents: Any, frequency: Any, **options: Any) -> Any:
    """Return a family."""
    return ut.Pedigree(parents, allele_frequency=frequency, **options)


LINE = network([("a", "b"), ("b", "c"), ("c", "d")], {"a": [0.7, 0.3], "b": UP, "c": DOWN, "d": UP})
TREE = network(
    [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")],
    {"a": [0.6, 0.4], "b": UP, "c": DOWN, "d": P, "e": UP, "f": DOWN},
)
FAMILY = pedigree({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, 0.2, latent=["ann"])
FLU = Contagion(3, 0.1, (0.1, 0.5))

CHAINS: dict[str, Any] = {
    "activity": gallery.LONG,
    "activity of 5": gallery.SHORT,
    "start elsewhere": chain(UP, start=[1.0, 0.0], length=7),
    "negative": chain(DOWN, length=6),
    "negative endless": chain(DOWN),
    "three states": gallery.THREE,
    "wild of 6": chain(WILD, length=6),
    "steps": gallery.STEPS,
    "periodic": periodic(12),
    "with zeros": chain([[0.0, 1.0], [0.5, 0.5]], length=5),
    "numbers": chain(P, (0, 5), length=4),
    "independent": chain([[0.4, 0.6], [0.4, 0.6]], length=3),
}
MEMORIES: dict[str, Any] = {
    "order two": second_order(RISING),
    "order two of 6": second_order(RISING, 6),
    "order two falling": second_order(FALLING, 6),
    "hidden regimes": hidden(REGIMES, ("idle", "idle", "active", "active")),
    "hidden regimes of 6": hidden(REGIMES, ("idle", "idle", "active", "active"), 6),
    "hidden stairs": hidden(STAIRS, (0, 0, 1)),
}
NETWORKS: dict[str, Any] = {
    "star": gallery.NET,
    "line": LINE,
    "tree": TREE,
    "exclusive or": gallery.XOR,
    "trio": gallery.TRIO,
    "family": FAMILY,
    "frequency interval": pedigree({"kim": ("bob", "ann")}, (0.05, 0.5)),
    "household": FLU,
}
CLASSES: dict[str, Any] = {
    "groups": ut.Groups(4),
    "groups of 1": ut.Groups(1),
    "groups of 2": ut.Groups(2),
    "box": gallery.BOX,
    "mixing": MixingClass(2, 0.2, 0.5, 50),
    "set": gallery.SET,
}
NUMBERS: dict[str, Any] = {
    "pair": gallery.PAIR,
    "bounded": gallery.CLASS,
    "linked": ut.MultivariateGaussian([0.0, 1.0, 2.0], LINKED),
}
AGAINST: dict[str, Any] = {
    "any": "any",
    "ignorant": "ignorant",
    "informed": "informed",
    "adversary": ut.Adversary(1, [0, 2]),
}
"""Record 2 is there in every model but two."""


# --- mechanisms -----------------------------------------------------------------------------------

FLIPS = ut.RandomizedResponse.binary(0.2, 0.35)


def table(state: Any) -> Any:
    """Return noise with a table that is not symmetric."""
    shares = (1, 3, 9, 14, 4, 1)
    weights = [2**128 // 32 * share for share in shares]
    return TabulatedNoise(ut.Count(state), -3, tuple(weights), 0.5)


# --- leakages -------------------------------------------------------------------------------------


def leakage(
    mechanism: Any, model: Any, against: Any = "any", *, delta: float = 0.0, secret: Any = None,
    valid_for: str = "series",
) -> Callable[[], Answer]:  # fmt: skip
    """Return the question of a leakage."""
    options: Any = {"delta": delta, "secret": secret, "valid_for": valid_for}

    def ask() -> Answer:
        try:
            leak = ut.leakage(mechanism, model, against, **options)
        except UndertowError as error:
            return {"refused": type(error).__name__}
        return _interval(leak, mechanism, model, delta)

    return ask


def _interval(leak: Any, mechanism: Any, model: Any, delta: float) -> Answer:
    attained = None
    if leak.witness is not None:
        attained = replayed(leak.witness, mechanism, model, delta)
    return {"lower": leak.lower, "upper": leak.upper, "attained": attained}


def budget(model: Any, limit: float = 1.0, against: Any = "any", delta: float = 0.0,
           secret: Any = None) -> Callable[[], Answer]:  # fmt: skip
    """Return the question of what to ask of a DP library."""

    def ask() -> Answer:
        found: Any = ut.dp_budget(model, limit=limit, against=against, delta=delta, secret=secret)
        if not delta:
            return {"budgets": {"epsilon": float(found)}}
        names = ("epsilon", "delta", "rho", "mu")
        return {"budgets": {name: getattr(found, name) for name in names}}

    return ask


def everybody(name: str, mechanism: Any, model: Any, **options: Any) -> Iterator[Case]:
    """Yield a question against each kind of adversary."""
    for who, against in AGAINST.items():
        yield Case(f"{name}: {who}", leakage(mechanism, model, against, **options))


def chain_cases() -> Iterator[Case]:
    """Yield levels, noisy answers, flips and erasures on chains."""
    for name, model in CHAINS.items():
        one = ut.Count(model.states[-1])
        noises: list[tuple[str, Any]] = [("level", ut.PureDP(0.7)), ("much", ut.PureDP(3.0))]
        noises += [("count", ut.DiscreteLaplace(one, 1.5)), ("sharp", ut.Laplace(one, 0.4))]
        noises += [("histogram", ut.DiscreteLaplace(ut.Histogram(), 2.0))]
        if model.size == 2:
            noises += [("flips", FLIPS), ("xor", ut.XorNoise(0.3, 0.4))]
        for noise, mechanism in noises:
            yield from everybody(f"{name}: {noise}", mechanism, model)
        if model.length is not None and model.length > 3:
            erased = [[0.9 if t in (1, 2) else 0.1] * model.size for t in range(model.length)]
            erased[1] = [1.0] * model.size
            yield from everybody(f"{name}: erased", ut.Redaction(erased, protect=[1]), model)
        count = ut.DiscreteLaplace(one, 2.5)
        for shape in ("windows", "any"):
            yield Case(f"{name}: {shape}", leakage(count, model, valid_for=shape))
    yield from everybody("numbers: metric", ut.MetricDP(0.2), CHAINS["numbers"])
    yield Case("person", leakage(ut.PureDP(0.5, unit="person"), gallery.SHORT))


def memory_cases() -> Iterator[Case]:
    """Yield the same on chains with a longer memory."""
    for name, model in MEMORIES.items():
        count = ut.DiscreteLaplace(ut.Count(model.states[-1]), 1.5)
        for noise, mechanism in (("level", ut.PureDP(0.7)), ("count", count), ("flips", FLIPS)):
            yield from everybody(f"{name}: {noise}", mechanism, model)
    erased = ut.Redaction([[0.1, 0.2], [0.9, 0.9], [1.0, 1.0], [0.5, 0.9], [0.2, 0.2], [0, 0.1]])
    for name in ("order two of 6", "hidden regimes of 6"):
        yield from everybody(f"{name}: erased", erased, MEMORIES[name])


def other_cases() -> Iterator[Case]:
    """Yield the same on networks, classes of models and Gaussian records."""
    for name, model in NETWORKS.items():
        state = ut.Count(model.states[-1])
        yield from everybody(f"{name}: level", ut.PureDP(0.7), model)
        yield from everybody(f"{name}: count", ut.DiscreteLaplace(state, 1.5), model)
        histogram = ut.DiscreteLaplace(ut.Histogram(), 2.0)
        if name != "tree":
            yield from everybody(f"{name}: histogram", histogram, model)
        if len(model.states) == 2:
            yield from everybody(f"{name}: flips", FLIPS, model)
    for name, model in CLASSES.items():
        state = ut.Count("active" if name in ("box", "set") else 1)
        yield from everybody(f"{name}: level", ut.PureDP(0.7), model)
        yield from everybody(f"{name}: count", ut.DiscreteLaplace(state, 1.5), model)
    for name, model in NUMBERS.items():
        total = ut.Linear([1.0] * model.length, spread=10.0)
        yield from everybody(f"{name}: metric", ut.MetricDP(0.2), model)
        yield from everybody(f"{name}: sum", ut.Laplace(total, 30.0), model)
        yield from everybody(f"{name}: clipped", ut.Laplace(ut.Sum(0, 10), 30.0), model)


def delta_cases() -> Iterator[Case]:
    """Yield leakages at a delta: guarantees that are not pure, and Gaussian noise."""
    models: dict[str, Any] = {
        "activity": gallery.LONG, "activity of 5": gallery.SHORT, "steps": gallery.STEPS,
        "periodic": CHAINS["periodic"], "three states": gallery.THREE,
        "groups of 3": ut.Groups(3), "star": gallery.NET, "box": gallery.BOX,
        "order two": MEMORIES["order two"], "order two of 6": MEMORIES["order two of 6"],
        "hidden regimes of 6": MEMORIES["hidden regimes of 6"],
        "hidden stairs": MEMORIES["hidden stairs"],
    }  # fmt: skip
    slow = ("three states", "order two", "activity", "hidden stairs")
    for name, model in models.items():
        count = ut.Count(model.states[-1] if model.states else 1)
        for noise, mechanism in (
            ("approximate", ut.ApproximateDP(0.7, 1e-6)),
            ("zcdp", ut.ZCDP(0.05)),
            ("gdp", ut.GDP(0.25)),
            ("profile", ut.Profile([(0.5, 1e-6), (0.9, 1e-8)])),
            ("normal", ut.Gaussian(count, 8.0)),
            ("discrete normal", ut.DiscreteGaussian(count, 8.0)),
        ):
            for who in ("any", "ignorant", "informed"):
                # the gate asks the quick ones of the slow models
                quick = who == "informed" or (name, noise, who) in QUICK_AT_DELTA
                yield Case(
                    f"{name}: {noise} at delta: {who}",
                    leakage(mechanism, model, who, delta=1e-5), name in slow and not quick,
                )  # fmt: skip
    pair = ut.Gaussian(ut.Sum(0, 10), 30.0)
    for who in ("any", "informed"):
        yield Case(f"pair: normal at delta: {who}", leakage(pair, gallery.PAIR, who, delta=1e-5))
    added = ut.ApproximateDP(0.4, 1e-7, neighbours="add-remove")
    yield Case("steps: added at delta", leakage(added, gallery.STEPS, delta=1e-5))


QUICK_AT_DELTA = {
    ("activity", "approximate", "ignorant"), ("three states", "approximate", "ignorant"),
    ("activity", "normal", "any"), ("order two", "approximate", "any"),
    ("order two", "zcdp", "ignorant"), ("hidden stairs", "gdp", "ignorant"),
}  # fmt: skip


def window_cases() -> Iterator[Case]:
    """Yield leakages about several records in a row."""
    for name, model in (
        ("activity", gallery.LONG), ("activity of 5", gallery.SHORT),
        ("negative", CHAINS["negative"]), ("three states", gallery.THREE), ("steps", gallery.STEPS),
        ("periodic", CHAINS["periodic"]), ("groups", ut.Groups(4)), ("box of 6", box(6)),
    ):  # fmt: skip
        state = ut.Count(model.states[-1] if model.states else 1)
        for noise, mechanism, delta in (
            ("level", ut.PureDP(0.7), 0.0),
            ("count", ut.Laplace(state, 2.0), 0.0),
            ("zcdp at delta", ut.ZCDP(0.05), 1e-5),
        ):
            for who in ("any", "ignorant", "informed"):
                yield Case(
                    f"{name}: {noise} about 3 records: {who}",
                    leakage(mechanism, model, who, delta=delta, secret=ut.Window(3)),
                    bool(delta) and name in ("three states", "activity"),
                )
    one = ut.Adversary(4, [2, 9])
    level = leakage(ut.PureDP(0.5), gallery.LONG, one, secret=ut.Window(3))
    yield Case("activity: level about 3 records: adversary", level)
    flips = leakage(FLIPS, gallery.LONG, secret=ut.Window(3))
    yield Case("activity: flips about 3 records: any", flips)


def table_cases() -> Iterator[Case]:
    """Yield leakages of noise with a table."""
    for name, model in (
        ("activity", gallery.LONG), ("activity of 5", gallery.SHORT),
        ("negative", CHAINS["negative"]), ("wild of 6", CHAINS["wild of 6"]),
        ("steps", gallery.STEPS), ("periodic", CHAINS["periodic"]),
        ("order two of 6", MEMORIES["order two of 6"]), ("star", gallery.NET), ("line", LINE),
        ("family", FAMILY), ("groups of 2", ut.Groups(2)), ("box", gallery.BOX),
    ):  # fmt: skip
        noise = table(model.states[-1] if model.states else 1)
        yield from everybody(f"{name}: table", noise, model)


def budget_cases() -> Iterator[Case]:
    """Yield budgets, the inverse of leakages."""
    for name, model in (
        ("activity", gallery.LONG), ("three states", gallery.THREE), ("steps", gallery.STEPS),
        ("groups", ut.Groups(4)), ("star", gallery.NET), ("box", gallery.BOX),
        ("order two", MEMORIES["order two"]), ("hidden stairs", MEMORIES["hidden stairs"]),
    ):  # fmt: skip
        yield Case(f"budget: {name}", budget(model))
    short = gallery.SHORT
    yield Case("budget: activity: ignorant", budget(gallery.LONG, 0.5, "ignorant"))
    yield Case("budget: activity about 3 records", budget(gallery.LONG, 2.0, secret=ut.Window(3)))
    yield Case("budget: activity of 5 at delta", budget(short, delta=1e-5), True)
    yield Case("budget: steps at delta", budget(gallery.STEPS, delta=1e-5))
    yield Case("budget: groups at delta", budget(ut.Groups(4), delta=1e-5))


# --- plans ----------------------------------------------------------------------------------------


def plan(args: tuple[Any, ...], options: dict[str, Any] | None = None) -> Callable[[], Answer]:
    """Return the question of a plan: query, model, limit, adversary and method."""
    more = dict(options or {})

    def ask() -> Answer:
        try:
            made: Any = gallery.calibrated(args, **more)
        except UndertowError as error:
            return {"refused": type(error).__name__}
        answer = {**_interval_of_plan(made), **noise_of(made)}
        return {**answer, "limit": made.limit}

    return ask


def _interval_of_plan(made: Any) -> Answer:
    leak, attained, mechanism = made.leakage, None, made.mechanism
    if made.method == "exchange" and made.task == "answer" and not made.delta:
        # what is attained is attained by some algorithm of the level, not by this noise
        mechanism = ut.PureDP(mechanism.level_upper(made.length))
    if leak.witness is not None and made.releases == 1 and made.unit == "record":
        attained = replayed(leak.witness, mechanism, made.model, made.delta)
    return {"lower": leak.lower, "upper": leak.upper, "attained": attained}


def noise_of(made: Any) -> Answer:
    """Return how much noise a plan adds, and the error or the loss that follows."""
    noise = made.mechanism
    if isinstance(noise, ut.Redaction):
        return {"noise": {"erased": 1.0 - made.utility}}
    if isinstance(noise, ut.RandomizedResponse | ut.XorNoise):
        return {"noise": {"flips": made.expected_flips}}
    amounts = {"error": made.expected_error}
    for name in ("scale", "sigma"):
        if hasattr(noise, name):
            amounts[name] = getattr(noise, name)
    return {"noise": amounts}


PLANS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{name: (asked, {}) for name, asked in gallery.ASKED.items()},
    **gallery.MORE,
    "best count": ((gallery.ACTIVE, gallery.LONG, 1.0), {}),
    "best windows": ((ut.Count(0), CHAINS["negative"], 2.0), {"valid_for": "windows"}),
    "best histogram": ((ut.Histogram(), gallery.THREE, 1.0), {}),
    "best network": ((ut.Count("ill"), LINE, 1.0), {}),
    "best family": ((ut.Count("BB"), FAMILY, 1.0), {}),
    "best household": ((ut.Count("ill"), FLU, 1.0), {}),
    "best sum": ((ut.Sum(0, 10), gallery.PAIR, 1.0), {}),
    "best flips": ((ut.Series(), CHAINS["negative"], 2.0), {}),
    "best box": ((gallery.ACTIVE, gallery.BOX, 1.0), {}),
    "best periodic": ((gallery.ACTIVE, CHAINS["periodic"], 1.0), {}),
    "best order two": ((ut.Count(1), MEMORIES["order two of 6"], 1.0), {}),
    "best order two endless": ((ut.Count(1), MEMORIES["order two"], 1.0), {}),
    "best hidden": ((ut.Count(1), MEMORIES["hidden stairs"], 1.0), {}),
    "best groups": ((ut.Count("x"), ut.Groups(2), 0.7), {}),
    "best linked": ((ut.Linear([1.0, 0.5, -1.0], spread=5.0), NUMBERS["linked"], 1.0), {}),
    "flips order two": ((ut.Series(), MEMORIES["order two of 6"], 3.0), {}),
    "flips hidden": ((ut.Series(), MEMORIES["hidden stairs"], 3.0), {}),
    "table": ((gallery.ACTIVE, gallery.SHORT, 1.0, "any", "optimal"), {}),
    "table ignorant": ((gallery.ACTIVE, gallery.SHORT, 1.0, "ignorant", "optimal"), {}),
    "table network": ((ut.Count("ill"), gallery.NET, 1.0, "any", "optimal"), {}),
    "window": ((gallery.ACTIVE, gallery.LONG, 2.0), {"secret": ut.Window(3)}),
    "window sum": (
        (ut.Sum(0, 1, gallery.ends(0, 1)), gallery.SHORT, 2.0),
        {"secret": ut.Window(2)},
    ),
    "window groups": ((ut.Count(1), ut.Groups(3), 2.0), {"secret": ut.Window(2)}),
    "delta groups": ((ut.Count(1), ut.Groups(3), 1.0), {"delta": 1e-6}),
    "delta steps": ((gallery.ACTIVE, gallery.STEPS, 1.0), {"delta": 1e-6}),
    "delta network": ((ut.Count("ill"), gallery.NET, 1.0), {"delta": 1e-6}),
    "delta box": ((gallery.ACTIVE, box(6), 2.0), {"delta": 1e-6}),
    "delta activity of 5": ((gallery.ACTIVE, gallery.SHORT, 1.0), {"delta": 1e-5}),
    "delta activity": ((gallery.ACTIVE, gallery.LONG, 1.0), {"delta": 1e-5}),
    "delta releases": ((ut.Count(1), ut.Groups(3), 2.0), {"delta": 1e-6, "releases": 12}),
    "delta window": ((ut.Count(1), ut.Groups(3), 2.0), {"delta": 1e-6, "secret": ut.Window(2)}),
    "delta sum": ((ut.Sum(0, 10), gallery.PAIR, 1.0), {"delta": 1e-6}),
    "releases": ((gallery.ACTIVE, gallery.LONG, 2.0), {"releases": 4}),
}
"""What is asked of `calibrate`, and with which options."""

SLOW_PLANS = {"delta activity", "delta activity of 5"}


# --- outputs under a fixed seed -------------------------------------------------------------------


@cache
def _plan(name: str) -> Any:
    """Return a plan whose noise is a round number, so that outputs stay."""
    query: Any = {
        "count": ut.Count("active"), "histogram": ut.Histogram(),
        "sum": ut.Sum(0, 8, gallery.ends(0, 8)),
        "top": ut.TopK(1), "moves": ut.Transitions(),
    }.get(name)  # fmt: skip
    if query is not None:
        return ut.calibrate(query, ut.Groups(4, NAMES), limit=1.0)
    if name == "normal":
        return ut.calibrate(ut.Count("active"), ut.Groups(4, NAMES), limit=1.0, delta=1e-6)
    if name == "table":
        return gallery.calibrated(PLANS["table"][0])
    if name == "long flips":
        return ut.calibrate(ut.Series(), gallery.LONG, limit=2.0, method="exchange")
    return gallery.plan(name)


def _records(plan_name: str) -> Any:
    made = _plan(plan_name)
    states = made.states or NAMES
    length = made.length or getattr(made.mechanism, "length", None) or 40
    return [states[(t * t + t // 3) % len(states)] for t in range(length)]


def output(verb: str, name: str, seed: int = 7) -> Callable[[], Answer]:
    """Return what a plan gives for a fixed series and seed."""

    def ask() -> Answer:
        try:
            made, records = _plan(name), _records(name)
            if made.model.family == "groups":  # whose members no column names
                records = ut.Data(records, ungrouped=True)
            if verb == "release":
                value = ut.release(made, records, insecure_seed=seed).value
            elif verb == "stream":
                value = list(made.stream(insecure_seed=seed).each(records))
            else:
                value = ut.sanitize(made, records, insecure_seed=seed)
        except UndertowError as error:
            return {"refused": type(error).__name__}
        return {"output": _plain(value)}

    return ask


def _plain(value: Any) -> Any:
    """Return an output as lists and dictionaries of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


OUTPUTS = (
    *(("release", name) for name in ("count", "histogram", "sum", "top", "moves", "normal", "table",
                                     "exchange mean")),
    *(("sanitize", name) for name in ("long flips", "flips of three", "xor")),
    *(("stream", name) for name in ("long flips", "xor")),
    ("redact", "redaction"), ("redact", "redaction 3r"),
)  # fmt: skip


# --- commands -------------------------------------------------------------------------------------

ROWS = "0.882,0.118;0.305,0.695"
NAMED = ("--transition", ROWS, "--states", "inactive,active")
STEPS = ("steps.csv", "--value", "steps", "--state", "steps > 0")
COUNT = ("--count", "active", "--limit", "1")

COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "leakage": (("leakage", *NAMED, "--epsilon", "1"), ("lower", "upper")),
    "leakage count": (
        ("leakage", *NAMED, "--count", "active", "--scale", "4", "--against", "ignorant"),
        ("lower", "upper"),
    ),
    "leakage order two": (
        (
            "leakage",
            "--transition",
            "0.9,0.1;0.4,0.6;0.7,0.3;0.2,0.8",
            "--order",
            "2",
            "--length",
            "6",
            "--epsilon",
            "1",
        ),
        ("lower", "upper"),
    ),
    "leakage limit": (("leakage", *NAMED, "--limit", "1"), ("limit", "epsilon")),
    "leakage nothing asked": (("leakage", *NAMED), ()),
    "leakage bad rows": (("leakage", "--transition", "0.9,0.2;0.3,0.7", "--epsilon", "1"), ()),
    "leakage bad level": (("leakage", *NAMED, "--epsilon", "-1"), ()),
    "leakage unknown option": (("leakage", *NAMED, "--nonsense"), ()),
    "plan": (
        ("plan", *NAMED, *COUNT),
        ("query", "noise", "scale", "limit", "method", "leakage.upper"),
    ),
    "plan histogram": (
        ("plan", *NAMED, "--histogram", "--limit", "0.5"),
        ("query", "noise", "scale", "limit"),
    ),
    "plan flips": (("plan", *NAMED, "--length", "5", "--series", "--limit", "2"), ("limit",)),
    "plan unknown state": (("plan", *NAMED, "--count", "asleep", "--limit", "1"), ()),
    "plan bad limit": (("plan", *NAMED, "--count", "active", "--limit", "0"), ()),
    "plan unfit method": (("plan", *NAMED, *COUNT, "--method", "quilt"), ()),
    "compare": (("compare", *NAMED, "--length", "8", *COUNT), ("limit", "best")),
    "fit": (("fit", *STEPS), ("states", "transition", "stationary", "counts")),
    "fit missing column": (("fit", "steps.csv", "--value", "pulse"), ()),
    "fit missing file": (("fit", "nowhere.csv", "--value", "steps"), ()),
    "release": (("release", *STEPS, "--plan", "true.plan"), ("format",)),
    "release without plan": (("release", *STEPS, "--plan", "nowhere.plan"), ()),
    "release edited plan": (("release", *STEPS, "--plan", "edited.plan"), ()),
    "release flips plan": (("release", *STEPS, "--plan", "flips.plan"), ()),
    "sanitize": (("sanitize", *STEPS, "--plan", "flips.plan", "--output", "shown.csv"), ()),
    "sanitize count plan": (("sanitize", *STEPS, "--plan", "true.plan", "--output", "s.csv"), ()),
    "validate": (("validate", *STEPS, "--plan", "true.plan"), ()),
    "robustness": (("robustness", "true.plan"), ()),
    "audit bad seed": (("audit", "true.plan", "--seed", "-1"), ()),
    "ledger missing": (("ledger", "show", "nowhere.db"), ()),
    "verify missing": (("verify", "nowhere.json"), ()),
    "no such command": (("nonsense",), ()),
}
"""Arguments, and the fields of the JSON that are a contract."""


@cache
def _files() -> dict[str, str]:
    """Return the files that commands find: a table and plans."""
    model = chain(P, (False, True), length=60)
    made = ut.calibrate(ut.Count(True), model, limit=1.0, method="exchange").to_json()
    flips = ut.calibrate(ut.Series(), model, limit=2.0, method="exchange").to_json()
    active = [(t * t + t // 3) % 4 == 0 for t in range(60)]
    return {
        "steps.csv": "steps\n" + "".join(f"{40 * here}\n" for here in active),
        "true.plan": made,
        "edited.plan": made.replace('"limit": 1.0', '"limit": 1.5'),
        "flips.plan": flips,
    }


def command(arguments: tuple[str, ...], fields: tuple[str, ...]) -> Callable[[], Answer]:
    """Return the exit code of a command, and fields of what it prints."""

    def ask() -> Answer:
        from undertow.cli.app import app

        home, runner = Path.cwd(), CliRunner()
        plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in _files().items():
                Path(folder, name).write_text(text, "utf-8")
            os.chdir(folder)
            try:
                state = {"UNDERTOW_STATE": str(Path(folder, "state"))}
                json_or_not = ("--json",) if fields else ()
                result = runner.invoke(app, [*arguments, *json_or_not], env=plain | state)
            finally:
                os.chdir(home)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return {"exit": result.exit_code, "fields": fields_of(result.stdout, fields)}

    return ask


def fields_of(text: str, fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the named fields of a JSON text; a dot leads into an object."""
    if not fields:
        return {}
    try:
        printed = json.loads(text)
    except ValueError:
        return {"json": None}
    values = {}
    for field in fields:
        value = printed
        for part in field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        values[field] = value
    return values


# --- all ------------------------------------------------------------------------------------------


def listed() -> Iterator[Case]:
    """Yield every case."""
    yield from chain_cases()
    yield from memory_cases()
    yield from other_cases()
    yield from delta_cases()
    yield from window_cases()
    yield from table_cases()
    yield from budget_cases()
    for name, (args, options) in PLANS.items():
        yield Case(f"plan: {name}", plan(args, options), name in SLOW_PLANS)
    for verb, name in OUTPUTS:
        yield Case(f"output: {verb} {name}", output(verb, name))
    for name, (arguments, fields) in COMMANDS.items():
        yield Case(f"command: {name}", command(arguments, fields))


CASES: dict[str, Case] = {case.name: case for case in listed()}
