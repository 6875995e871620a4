"""Every public call with extreme arguments: an answer, or a refusal with a typed error.

Each call of the table is made with one argument at a time replaced by what nobody should pass:
zeros, subnormal and huge numbers, NaN, huge integers, other types, empty and nested collections.
Only `UndertowError` may escape, and `TypeError` where the call itself does not fit the signature;
no warning of NumPy's may be shown.
"""

import datetime
import math
import re
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars
import pytest

import undertow as ut
from undertow import diagnostics
from undertow.data.scopes import Scope
from undertow.errors import AccountWarning, DisclosureWarning, UndertowError
from undertow.integrations import from_opendp, from_tumult
from undertow.mechanisms import TabulatedNoise
from undertow.models import ChainBox, GaussianClass, MixingClass, SecondOrderChain, is_attractive
from undertow.queries import BinaryHistogram

SECONDS = 60
"""No case takes so long: each answers within seconds, on a slow machine too."""

SIGNATURE = re.compile(r"argument|missing|unexpected keyword")

TINY = 5e-324
EXTREMES: dict[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "1": 1,
    "2": 2,
    "0.0": 0.0,
    "-0.5": -0.5,
    "least float": TINY,
    "1e-300": 1e-300,
    "1e-17": 1e-17,
    "nearly 1": 1 - 2**-53,
    "1e5": 1e5,
    "1e300": 1e300,
    "largest float": 1.7976931348623157e308,
    "inf": math.inf,
    "-inf": -math.inf,
    "nan": math.nan,
    "2**70": 2**70,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "Fraction": Fraction(1, 3),
    "Decimal nan": Decimal("NaN"),
    "complex": 1j,
    "numpy nan": np.float64("nan"),
    "empty text": "",
    "text": "x",
    "surrogate": "\ud800",
    "bytes": b"x",
    "object": object(),
    "date": datetime.datetime(2020, 1, 1),
    "empty list": [],
    "empty dictionary": {},
    "empty set": set(),
    "nested empty": [[]],
    "list of None": [None],
    "list of nan": [math.nan, 1.0],
    "list of inf": [math.inf, 0.0],
    "list of tiny": [TINY, 1.0],
    "list of huge": [1e308, 1e308],
    "list of huge integers": [10**400, 1],
    "ragged": [[1.0], [0.5, 0.5]],
    "matrix of nan": [[math.nan, 1.0], [0.5, 0.5]],
    "matrix of tiny": [[1.0, TINY], [TINY, 1.0]],
    "matrix of rare": [[1.0, 1e-99], [1e-99, 1.0]],
    "matrix of zeros": np.zeros((2, 2)),
    "identity": np.eye(2),
    "empty array": np.array([]),
    "cube": np.full((2, 2, 2), 0.5),
    "texts": ["a", "b"],
    "matrix of texts": [["a", "b"], ["c", "d"]],
}

ROWS = [[0.9, 0.1], [0.3, 0.7]]
CHAIN = ut.MarkovChain(ROWS, length=4)
ENDLESS = ut.MarkovChain(ROWS)
RECORDS = [0, 1, 0, 0]
PLAN = ut.calibrate(ut.Count(1), CHAIN, 1.0)
FLIPS = ut.calibrate(ut.Series(), CHAIN, 1.0)
ERASED = ut.calibrate(ut.Redacted(protect=1, length=4), CHAIN, 1.0)
MODELS: dict[str, Any] = {
    "chain": CHAIN,
    "endless": ENDLESS,
    "three states": ut.MarkovChain([[0.8, 0.2, 0], [0.1, 0.8, 0.1], [0, 0.5, 0.5]], length=3),
    "given start": ut.MarkovChain(ROWS, start=[1, 0], length=3),
    "order two": ut.MarkovChain.second_order(
        [[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]], None, 4
    ),
    "hidden": ut.HiddenChain(ROWS, (0, 1), length=4),
    "box": ChainBox([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]], length=4),
    "mixing": MixingClass(2, 0.2, 0.5, 50),
    "groups": ut.Groups(2),
    "network": ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: ROWS}),
    "pedigree": ut.Pedigree({"kim": ("bob", "ann")}),
    "gaussian": ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]]),
    "gaussian class": GaussianClass(3, 0.2),
    "set": ut.ModelSet([CHAIN, ut.MarkovChain([[0.5, 0.5], [0.4, 0.6]], length=4)]),
}


FRAME = polars.DataFrame({
    "id": ["a", "a", "b", "b"], "at": [0, 1, 0, 1], "v": RECORDS, "group": ["x", "x", "y", "y"],
})  # fmt: skip
BY_LEVEL = ut.calibrate(ut.Count(1), ENDLESS, 1.0, method="exchange")
TABLE = ut.calibrate(ut.Count(1), CHAIN, 1.0, method="optimal").noise
assert isinstance(TABLE, TabulatedNoise)


TRIO = "f bob 0 0 1 0\nf ann 0 0 2 0\nf kim bob ann 0 0\n"


def account(**terms: Any) -> Any:
    """Return a ledger of its own."""
    where = f"{tempfile.mkdtemp(dir='.')}/year.db"
    return ut.Ledger(
        where, **{"dataset": "w", "model": ENDLESS, "limit": 1.0, "memory": False, **terms}
    )


def recorded(release_id: Any, result: Any) -> Any:
    ledger = account()
    ledger.reserve("week", 0.1)
    return ledger.confirm(release_id, result)


def refit(sequences: Any = (0, 1, 0, 0, 1, 1), **more: Any) -> Any:
    return ut.MarkovChain.fit(sequences, public=True, **more)


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "PureDP": (ut.PureDP, {"epsilon": 1.0, "unit": "record"}),
    "ApproximateDP": (ut.ApproximateDP, {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace"}),
    "ZCDP": (ut.ZCDP, {"rho": 0.1, "neighbours": "replace"}),
    "GDP": (ut.GDP, {"mu": 0.5, "unit": "record"}),
    "Profile": (ut.Profile, {"profile": [(1.0, 1e-6)]}),
    "MetricDP": (ut.MetricDP, {"rate": 1.0}),
    "Laplace": (ut.Laplace, {"query": ut.Count(1), "scale": 1.0}),
    "DiscreteLaplace": (ut.DiscreteLaplace, {"query": ut.Count(1), "scale": 1.0}),
    "Gaussian": (ut.Gaussian, {"query": ut.Count(1), "sigma": 1.0}),
    "DiscreteGaussian": (ut.DiscreteGaussian, {"query": ut.Count(1), "sigma": 1.0}),
    "TabulatedNoise": (
        TabulatedNoise,
        {"query": ut.Count(1), "first": TABLE.first, "weights": TABLE.weights,
         "ratio": TABLE.ratio},
    ),
    "RandomizedResponse": (ut.RandomizedResponse, {"matrix": ROWS, "outputs": ["a", "b"]}),
    "binary flips": (ut.RandomizedResponse.binary, {"rho0": 0.1, "rho1": 0.2}),
    "XorNoise": (ut.XorNoise, {"rho0": 0.1, "rho1": 0.2}),
    "Redaction": (ut.Redaction, {"probabilities": [[0.1, 0.2], [1.0, 1.0]], "protect": 1}),
    "Count": (ut.Count, {"states": 1}),
    "BinaryHistogram": (BinaryHistogram, {"states": 1, "rest": 0}),
    "Histogram": (ut.Histogram, {"totalled": True}),
    "TopK": (ut.TopK, {"k": 1, "among": 2}),
    "Sum": (ut.Sum, {"lower": 0, "upper": 6, "values": {"a": 0, "b": 6}, "steps": 6}),
    "Mean": (ut.Mean, {"lower": 0, "upper": 6, "values": {"a": 0, "b": 6}, "steps": 6}),
    "Linear": (ut.Linear, {"weights": [1.0, 2.0], "spread": 1.0, "lower": 0.0}),
    "Query": (ut.Query, {"function": max, "sensitivity": 1.0}),
    "Redacted": (ut.Redacted, {"protect": 1, "length": 4}),
    "Adversary": (ut.Adversary, {"target": 1, "known": [0]}),
    "Window": (ut.Window, {"records": "1 hour", "every": "5m"}),
    "Pairs": (ut.Pairs, {"pairs": [("a", "b")], "records": [1]}),
    "Records": (ut.Records, {"records": [1, 2]}),
    "MarkovChain": (
        ut.MarkovChain,
        {"transition": ROWS, "states": ["a", "b"], "start": [0.5, 0.5], "length": 4},
    ),
    "SecondOrderChain": (
        SecondOrderChain,
        {"transition": np.full((2, 2, 2), 0.5), "states": ["a", "b"], "length": 4},
    ),
    "HiddenChain": (
        ut.HiddenChain,
        {"transition": ROWS, "symbols": ["a", "b"], "states": ["a", "b"], "length": 4},
    ),
    "from_counts": (
        ut.MarkovChain.from_counts,
        {"counts": [[8, 2], [1, 4]], "states": ["a", "b"], "prior": 0.5, "length": 4,
         "public": True},
    ),
    "box": (
        ut.MarkovChain.box,
        {"lower": [[0.8, 0.1], [0.3, 0.6]], "upper": [[0.9, 0.2], [0.4, 0.7]],
         "states": ["a", "b"], "length": 4},
    ),
    "ChainBox": (
        ChainBox,
        {"lower": [[0.8, 0.1], [0.3, 0.6]], "upper": [[0.9, 0.2], [0.4, 0.7]],
         "note": "a box", "trace": 1.5},
    ),
    "mixing": (ut.MarkovChain.mixing, {"states": 3, "pi_min": 0.1, "gap": 0.5, "length": 9}),
    "periodic": (
        ut.MarkovChain.periodic,
        {"matrices": [ROWS, ROWS], "states": ["a", "b"], "length": 5, "phase": 0, "steps_per": 2,
         "start": [0.5, 0.5], "context": "hour"},
    ),
    "by_context": (
        ut.MarkovChain.by_context,
        {"matrices": {"d": ROWS}, "context": ["d", "d"], "states": ["a", "b"], "start": [0.5, 0.5],
         "name": "hour"},
    ),
    "fit_by_context": (
        ut.MarkovChain.fit_by_context,
        {"sequences": list("aabab"), "context": list("ddddd"), "states": ["a", "b"], "prior": 1.0,
         "name": "hour", "public": True},
    ),
    "fit": (refit, {"sequences": RECORDS, "states": [0, 1], "prior": 1.0, "length": 4}),
    "fit of order two": (refit, {"sequences": RECORDS * 3, "order": 2, "prior": 1.0}),
    "hidden fit": (
        ut.HiddenChain.fit,
        {"sequences": RECORDS * 3, "hidden": 1, "starts": 1, "seed": 0, "length": 4,
         "public": True},
    ),
    "ModelSet": (ut.ModelSet, {"models": [CHAIN], "note": "one"}),
    "Groups": (ut.Groups, {"size": 2, "states": ["a", "b"]}),
    "MultivariateGaussian": (
        ut.MultivariateGaussian,
        {"mean": [0.0, 0.0], "covariance": [[1, 0.5], [0.5, 1]], "spread": 1.0},
    ),
    "bounded": (ut.MultivariateGaussian.bounded, {"n": 3, "rho": 0.2, "sds": [1, 1, 1]}),
    "gaussian fit": (
        ut.MultivariateGaussian.fit,
        {"rows": np.random.default_rng(1).normal(size=(9, 2)).tolist(), "public": True},
    ),
    "BayesianNetwork": (
        ut.BayesianNetwork,
        {"edges": [(0, 1)], "cpds": {0: [0.5, 0.5], 1: ROWS}, "states": ["a", "b"], "latent": []},
    ),
    "one table": (
        lambda table: ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: table}), {"table": ROWS},
    ),
    "Pedigree": (
        ut.Pedigree,
        {"parents": {"kim": ("bob", "ann")}, "allele_frequency": 0.3, "people": ["kim"],
         "sexes": {"bob": "male"}, "latent": []},
    ),
    "leakage": (
        ut.leakage,
        {"mechanism": ut.PureDP(1.0), "model": CHAIN, "against": "any", "delta": 0.0, "effort": 1,
         "valid_for": "series", "secret": None},
    ),
    "leakage at delta": (
        ut.leakage,
        {"mechanism": ut.Gaussian(ut.Count(1), sigma=2.0), "model": CHAIN, "delta": 1e-6},
    ),
    "dp_budget": (
        ut.dp_budget,
        {"model": CHAIN, "limit": 1.0, "against": "any", "delta": 0.0, "secret": None},
    ),
    "calibrate": (
        ut.calibrate,
        {"query": ut.Count(1), "model": CHAIN, "limit": 1.0, "against": "any", "method": "exact",
         "delta": 0.0, "releases": 1, "secret": None, "noise": None, "valid_for": "series"},
    ),
    "calibrate flips": (
        ut.calibrate,
        {"query": ut.Series(), "model": CHAIN, "limit": 1.0, "method": "exact", "objective": None},
    ),
    "calibrate erasures": (
        ut.calibrate,
        {"query": ut.Redacted(protect=1, length=4), "model": CHAIN, "limit": 1.0, "method": "mq"},
    ),
    "compare": (
        ut.compare,
        {"query": ut.Count(1), "model": CHAIN, "limit": 1.0, "methods": ["exact", "group"],
         "delta": 0.0, "releases": 1, "effort": 1.0},
    ),
    "certify": (ut.certify, {"mechanism": ut.PureDP(1.0), "model": CHAIN, "against": "any"}),
    "verify": (ut.verify, {"certificate": ut.certify(ut.PureDP(1.0), CHAIN).to_json()}),
    "is_attractive": (is_attractive, {"model": CHAIN}),
    "release": (ut.release, {"plan": PLAN, "data": RECORDS, "release_id": "a", "source": "b"}),
    "sanitize": (ut.sanitize, {"plan": FLIPS, "data": RECORDS, "strict": False}),
    "sanitize erasures": (ut.sanitize, {"plan": ERASED, "data": RECORDS}),
    "stream": (FLIPS.stream, {"strict": False}),
    "estimate": (ut.estimate, {"sanitised": RECORDS, "plan": FLIPS, "confidence": 0.9}),
    "attack": (
        ut.attack,
        {"sanitised": RECORDS, "plan": FLIPS, "truth": RECORDS, "known": [0], "targets": [1],
         "confidence": 0.9},
    ),
    "audit": (ut.audit, {"plan": PLAN, "draws": 1000, "seed": 1, "confidence": 0.9, "limit": 1.0}),
    "robustness": (
        diagnostics.robustness,
        {"plan": PLAN, "factors": (1.0,), "confidence": 0.9, "others": [ENDLESS]},
    ),
    "persons": (
        diagnostics.persons, {"fitted": refit(RECORDS), "limit": 1.0, "against": "any", "least": 1},
    ),
    "orders": (
        diagnostics.orders,
        {"data": RECORDS * 3, "limit": 1.0, "orders": (1,), "hidden": (), "prior": 1.0,
         "public": True},
    ),
    "Data": (
        lambda source, **how: ut.release(BY_LEVEL, ut.Data(source, **how)),
        {"source": FRAME, "value": "v", "person": "id", "time": "at", "state": None, "every": 1,
         "by": "group", "gaps": "split", "groups": None, "memory": 10**9},
    ),
    "window": (
        lambda a, b: ut.Data(FRAME, value="v", person="id", time="at", every=1).window(a, b),
        {"a": 0, "b": 2},
    ),
    "Scope": (Scope, {"by": "group", "groups": ["x"], "start": 0, "end": 7, "clock": "day"}),
    "Ledger": (
        account,
        {"dataset": "w", "model": ENDLESS, "limit": 1.0, "delta": None, "pure": None,
         "against": "any", "secret": None, "create": True, "key": None,
         "memory": False},
    ),
    "Ledger at": (
        lambda where: account() and ut.Ledger(where, "w", model=ENDLESS, limit=1.0, memory=False),
        {"where": "year.db"},
    ),
    "reserve": (
        lambda **asked: account(delta=1e-6).reserve(**asked),
        {"release_id": "week", "level": 0.01, "scope": None, "about": {"a": 1}, "mu": None,
         "rho": None, "delta": None, "kind": "release", "leakage": None, "unit": "record"},
    ),
    "confirm": (recorded, {"release_id": "week", "result": {"a": 1}}),
    "proves": (ut.leakage(ut.PureDP(1.0), CHAIN).proves, {"epsilon": 2.0}),
    "reaches": (ut.leakage(ut.PureDP(1.0), CHAIN).reaches, {"valid_for": "windows"}),
    "hidden of": (ut.HiddenChain.of, {"chain": ENDLESS}),
    "from_fit": (
        SecondOrderChain.from_fit,
        {"fitted": ut.MarkovChain.fit(RECORDS * 3, public=True), "prior": 1.0},
    ),
    "pedigree file": (
        lambda path, **more: Path("trio.ped").write_text(TRIO) and ut.Pedigree.read(path, **more),
        {"path": "trio.ped", "allele_frequency": 0.3, "latent": ()},
    ),
    "marginals": (ENDLESS.marginals, {"records": 3}),
    "set_limit": (lambda **asked: account().set_limit(**asked), {"limit": 2.0, "delta": 1e-6}),
    "page": (lambda **asked: account().page(**asked), {"after": None, "most": 9, "size": 99}),
    "left": (lambda scope: account().left(scope), {"scope": None}),
    "release from a ledger": (
        lambda ledger, **more: ut.release(BY_LEVEL, RECORDS, ledger, **more),
        {"ledger": None, "release_id": "week"},
    ),
    "Plan.from_json": (ut.Plan.from_json, {"text": PLAN.to_json()}),
    "from_opendp": (from_opendp, {"measurement": None}),
    "from_tumult": (from_tumult, {"budget": None}),
    "reverse": (lambda length: ut.MarkovChain(ROWS, start=[1, 0], length=length).reverse(),
                {"length": 3}),
    "bridge": (ENDLESS.bridge, {"first": 0, "last": 1, "length": 3}),
    "between": (ENDLESS.between, {"first": 0, "last": 1}),
    "law": (ut.MarkovChain(ROWS, start=[1, 0]).law, {"record": 3}),
    "simulate": (ENDLESS.simulate, {"length": 3, "seed": 1}),
    "accuracy": (PLAN.accuracy, {"beta": 0.05}),
}  # fmt: skip
NUMBERS = (
    "0.0", "-0.5", "least float", "1e-300", "1e-17", "nearly 1", "1e5", "1e300", "largest float",
    "inf", "nan", "10**400",
)  # fmt: skip
"""What replaces the numbers of a mechanism on a model: other types are refused before."""

ON_MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}
for name, model in MODELS.items():
    query = ut.Count(model.states[0]) if getattr(model, "states", ()) else ut.Sum(0, 1)
    ON_MODELS |= {
        f"PureDP on {name}": (
            lambda epsilon, model=model: ut.leakage(ut.PureDP(epsilon), model), {"epsilon": 1.0},
        ),
        f"Laplace on {name}": (
            lambda scale, model=model, query=query: ut.leakage(ut.Laplace(query, scale), model),
            {"scale": 1.0},
        ),
        f"ApproximateDP on {name}": (
            lambda epsilon, delta, at, model=model: ut.leakage(
                ut.ApproximateDP(epsilon, delta), model, delta=at
            ),
            {"epsilon": 1.0, "delta": 1e-6, "at": 1e-4},
        ),
        f"plan on {name}": (
            lambda limit, model=model, query=query: ut.calibrate(query, model, limit),
            {"limit": 1.0},
        ),
        f"budget on {name}": (
            lambda limit, delta, model=model: ut.dp_budget(model, limit, delta=delta),
            {"limit": 1.0, "delta": 1e-6},
        ),
    }  # fmt: skip
for name in ("chain", "three states", "groups", "gaussian"):
    ON_MODELS |= {
        f"ZCDP on {name}": (
            lambda rho, at, model=MODELS[name]: ut.leakage(
                ut.ZCDP(rho, neighbours="add-remove"), model, delta=at
            ),
            {"rho": 0.1, "at": 1e-4},
        ),
        f"GDP on {name}": (
            lambda mu, at, model=MODELS[name]: ut.leakage(ut.GDP(mu), model, delta=at),
            {"mu": 0.5, "at": 1e-4},
        ),
    }
QUICK = ("PureDP", "Laplace")

CASES = [
    pytest.param(
        name, argument, id=f"{name}-{argument}",
        marks=() if name in CALLS or name.startswith(QUICK) else pytest.mark.soak,
    )
    for name, (_, arguments) in (CALLS | ON_MODELS).items()
    for argument in arguments
]  # fmt: skip


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End a case that takes longer; code that never ends would end the run."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(name: str, argument: str, value: Any) -> str | None:
    """Return what went wrong with one argument replaced, None if nothing did."""
    call, arguments = (CALLS | ON_MODELS)[name]
    with warnings.catch_warnings(), within(SECONDS):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DisclosureWarning)
        warnings.simplefilter("ignore", AccountWarning)
        try:
            call(**{**arguments, argument: value})
        except UndertowError:
            return None
        except Exception as error:  # noqa: BLE001  (every other one is what the test looks for)
            if isinstance(error, TypeError) and SIGNATURE.search(str(error)) and "()" in str(error):
                return None
            return f"{type(error).__name__}: {error}"[:200]
    return None


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go where files may be made."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("from_")])
def test_the_call_itself_is_answered(name: str) -> None:
    """A call that is refused as it stands would show nothing of its other arguments."""
    call, arguments = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call(**arguments)


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_extreme_arguments(name: str, argument: str) -> None:
    faults = {
        word: fault
        for word, value in EXTREMES.items()
        if name in CALLS or word in NUMBERS
        if (fault := outcome(name, argument, value)) is not None
    }
    assert not faults


def test_every_public_call_is_in_the_table() -> None:
    """Results are made by the package; everything that a caller makes or calls is tried."""
    results = {
        "Plan", "__version__",
    }  # fmt: skip
    other = {
        "Person": "", "Series": "", "Transitions": "",
    }  # fmt: skip
    missing = {name for name in ut.__all__ if name not in CALLS} - results - set(other)
    assert not missing
