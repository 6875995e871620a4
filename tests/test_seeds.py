"""`seed=` takes a whole number or a generator of NumPy, wherever something is simulated."""

import inspect
import typing

import numpy as np
import pytest

import undertow as ut
from undertow import audit
from undertow.errors import InvalidInput
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Seed

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
NETWORK = ut.BayesianNetwork([("a", "b")], {"a": [0.6, 0.4], "b": [[0.7, 0.3], [0.2, 0.8]]})
PLAN = ut.calibrate(ut.Count(1), CHAIN, limit=1.0)
SERIES = CHAIN.simulate(200, seed=3)
SIMULATED = {
    "chain": lambda seed: CHAIN.simulate(30, seed=seed),
    "order two": lambda seed: SecondOrderChain.of(CHAIN).simulate(30, seed=seed),
    "hidden": lambda seed: ut.HiddenChain.of(CHAIN).simulate(30, seed=seed),
    "network": lambda seed: [NETWORK.simulate(seed=seed) for _ in range(20)],
    "hidden fit": lambda seed: ut.HiddenChain.fit(
        SERIES, starts=2, seed=seed, public=True
    ).transition.tolist(),
    "audit": lambda seed: audit(PLAN, 2000, seed=seed).randomness,
}


@pytest.mark.parametrize("name", SIMULATED)
def test_a_generator_is_a_seed(name):
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    assert SIMULATED[name](one) == SIMULATED[name](two)
    assert SIMULATED[name](7) == SIMULATED[name](7)


@pytest.mark.parametrize("name", ["chain", "order two", "hidden", "audit"])
def test_a_generator_goes_on_from_where_it_stands(name):
    generator = np.random.default_rng(5)
    assert SIMULATED[name](generator) != SIMULATED[name](generator)


@pytest.mark.parametrize("name", SIMULATED)
@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_what_is_no_seed_is_refused(name, seed):
    with pytest.raises(InvalidInput, match="seed must be"):
        SIMULATED[name](seed)


def test_types_say_so():
    for function in (
        ut.MarkovChain.simulate, ut.HiddenChain.simulate, ut.HiddenChain.fit,
        SecondOrderChain.simulate, ut.BayesianNetwork.simulate, audit,
    ):  # fmt: skip
        annotation = inspect.signature(function).parameters["seed"].annotation
        assert annotation == "Seed" or annotation == Seed or typing.get_args(annotation)
