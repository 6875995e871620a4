"""Classes of chains: what is refused, what their corners are, and that files restore them."""

import json
import math

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput, InvalidModel
from undertow.models.base import Model
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.sets import model_from_dict

LOW, HIGH = [[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]]


# --- boxes ----------------------------------------------------------------------------------------


def test_a_box_says_what_it_is():
    box = ut.MarkovChain.box(LOW, HIGH, ("idle", "busy"), length=7)
    assert isinstance(box, ChainBox)
    assert isinstance(box, Model)
    assert (box.size, box.states, box.length) == (2, ("idle", "busy"), 7)
    assert (box.lower.tolist(), box.upper.tolist()) == (LOW, HIGH)
    assert box.describe() == (
        "any chain inside a box of transition matrices on 2 states, a stationary start, 7 records"
    )
    assert ChainBox(LOW, HIGH).states == (0, 1)
    assert ChainBox(LOW, HIGH).describe().endswith("any length")


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([[0.9, 0.2], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]], "row 0 of the box holds no distr"),
        ([[0.7, 0.1], [0.3, 0.6]], [[0.8, 0.1], [0.4, 0.7]], "row 0 of the box holds no distr"),
        ([[0.9, 0.1], [0.5, 0.6]], [[0.9, 0.1], [0.4, 0.7]], r"entry \(1, 0\) of the box is \[0.5"),
        ([[-0.1, 0.1], [0.3, 0.6]], HIGH, r"entry \(0, 0\)"),
        (LOW, [[1.1, 0.13], [0.32, 0.71]], r"entry \(0, 0\)"),
        ([[math.nan, 0.1], [0.3, 0.6]], HIGH, r"entry \(0, 0\)"),
        (LOW, [[0.89, math.inf], [0.32, 0.71]], r"entry \(0, 1\)"),
        (LOW, [[1.0]], r"found shapes \(2, 2\) and \(1, 1\)"),
        ([0.1, 0.2], [0.3, 0.4], "two square matrices"),
        ([], [], "two square matrices"),
        ([[1.0]], [[1.0]], "at least two states"),
    ],
)
def test_bad_boxes_are_refused(lower, upper, message):
    with pytest.raises(InvalidModel, match=message):
        ChainBox(lower, upper)


def test_bad_names_and_lengths_of_a_box_are_refused():
    with pytest.raises(InvalidModel, match="2 states need 2 names"):
        ChainBox(LOW, HIGH, ("a",))
    with pytest.raises(InvalidInput, match="at least 2, found 1"):
        ChainBox(LOW, HIGH, length=1)
    with pytest.raises(InvalidInput, match="numbers are required"):
        ChainBox("low", HIGH)


def test_boxes_survive_a_file():
    box = ChainBox(LOW, HIGH, ("a", "b"), length=12)
    text = json.dumps(box.to_dict(), allow_nan=False)
    assert json.loads(text)["kind"] == "box"
    assert model_from_dict(json.loads(text)) == box == ChainBox.from_dict(json.loads(text))
    assert model_from_dict({"kind": "box", "lower": LOW, "upper": HIGH}) == ChainBox(LOW, HIGH)
    for key in ("lower", "upper"):
        with pytest.raises(InvalidModel, match=f"a box of chains needs '{key}'"):
            model_from_dict({k: v for k, v in box.to_dict().items() if k != key})


# --- classes known by how fast they mix -----------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 0.5, 0.1), "at least 2, found 1"),
        ((True, 0.5, 0.1), "whole number, found True"),
        ((2.0, 0.5, 0.1), "a number of states or a list of names, found float"),
        (("ab", 0.5, 0.1), "a number of states or a list of names, found str"),
        ((("a", "a"), 0.5, 0.1), "two states bear the same name"),
        ((("a",), 0.5, 0.1), "at least two states"),
        ((5, 0.21, 0.1), "pi_min is 0.21, but the least of 5 probabilities is at most 1/5"),
        ((5, 0.0, 0.1), "pi_min must be positive"),
        ((5, math.nan, 0.1), "pi_min must be positive"),
        ((5, "x", 0.1), "pi_min must be a number"),
        ((5, 0.1, 0.0), "gap must be positive"),
        ((5, 0.1, 1.5), r"gap is 1 - \|lambda_2\| and lies in \(0, 1\], found 1.5"),
        ((5, 0.1, 0.1, 0), "at least 2, found 0"),
    ],
)
def test_bad_mixing_classes_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        MixingClass(*arguments)


@pytest.mark.parametrize("size", range(2, 50))
def test_equal_probabilities_are_possible(size):
    assert MixingClass(size, 1 / size, 1.0).pi_min == 1 / size


def test_mixing_classes_survive_a_file():
    mixing = MixingClass(("a", "b", "c"), 0.2, 0.3, 99)
    text = json.dumps(mixing.to_dict(), allow_nan=False)
    assert json.loads(text)["kind"] == "mixing"
    assert model_from_dict(json.loads(text)) == mixing
    written = {"kind": "mixing", "states": 5, "pi_min": 0.05, "gap": 0.1}
    assert model_from_dict(written) == MixingClass(5, 0.05, 0.1)
    with pytest.raises(InvalidModel, match="a mixing class needs 'gap'"):
        model_from_dict({"kind": "mixing", "states": 5, "pi_min": 0.05})


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_nth_record_of_each_chain_of_a_box_is_in_the_box_of_these(size):
    rng = np.random.default_rng(size)
    for _ in range(20):
        rows = rng.dirichlet(np.ones(size), size=size)
        lower, upper = np.maximum(rows - 0.1, 0), np.minimum(rows + 0.1, 1)
        step = int(rng.integers(1, 9))
        thinned = ut.MarkovChain.box(lower, upper).every_nth(step)
        for _ in range(20):
            others = rng.dirichlet(np.ones(size), size=size)
            chain = rows + 0.1 * rng.uniform(size=(size, 1)) * (others - rows)  # inside the box
            power = np.linalg.matrix_power(chain, step)
            assert (thinned.lower <= power + 1e-15).all()
            assert (power - 1e-15 <= thinned.upper).all()


def test_every_nth_record_of_a_fit_stands_for_a_region():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    fitted = ut.MarkovChain.fit(chain.simulate(20_000, seed=1), public=True)
    thinned, region = fitted.every_nth(6), fitted.region()
    powers = [np.linalg.matrix_power(corner.transition, 6) for corner in region.corners()]
    box = thinned.plausible_region()
    assert box.upper == pytest.approx(np.max(powers, axis=0), rel=1e-9)  # states that last: exact
    assert box.lower == pytest.approx(np.min(powers, axis=0), rel=1e-9)
    assert ut.leakage(ut.PureDP(0.5), thinned).upper >= max(
        ut.leakage(ut.PureDP(0.5), ut.MarkovChain(power)).lower for power in powers
    )
