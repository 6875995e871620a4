"""Tables with labels: adopted, put in order, or refused; never read by place alone.

For every constructor that takes a table there is a case: the same table with its labels permuted
makes the same model, and one with other labels is refused with both sides shown.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import undertow as ut
from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import labels_of
from undertow.models import ChainBox

STATES = ("a", "b", "c")
ROWS = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.25, 0.35, 0.4]])
START = np.array([0.5, 0.3, 0.2])
LOW, HIGH = np.maximum(ROWS - 0.05, 0), np.minimum(ROWS + 0.05, 1)
COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 4.0]])
COUNTS = np.array([[8, 2, 1], [3, 9, 2], [1, 4, 6]])

Frame = Callable[[Any], Any]


def framed(names: tuple[Any, ...] = STATES, rows: Any = None, columns: Any = None) -> Frame:
    """A table as a data frame, its rows and columns in a given order of places."""

    def frame(table: Any) -> Any:
        held = np.asarray(table)
        across = list(range(len(names))) if columns is None else columns
        if held.ndim == 1:
            return pd.Series(held[across], index=[names[place] for place in across])
        down = list(range(len(names))) if rows is None else rows
        return pd.DataFrame(
            held[np.ix_(down, across)],
            index=[names[place] for place in down],
            columns=[names[place] for place in across],
        )

    return frame


def plain(table: Any) -> Any:
    return np.asarray(table)


TABLES: dict[str, Callable[[Frame, Any], Any]] = {
    "transition": lambda f, states: ut.MarkovChain(f(ROWS), states),
    "start": lambda f, states: ut.MarkovChain(f(ROWS), states, start=f(START), length=5),
    "start of a plain matrix": lambda f, states: ut.MarkovChain(
        ROWS, STATES, start=f(START), length=5
    ),
    "stack": lambda f, states: ut.MarkovChain(
        [f(ROWS), f(ROWS.T / ROWS.T.sum(1, keepdims=True))], states, start=f(START)
    ),
    "tuple of frames": lambda f, states: ut.MarkovChain((f(ROWS), f(ROWS)), states, start=f(START)),
    "from_counts": lambda f, states: ut.MarkovChain.from_counts(f(COUNTS), states, public=True),
    "box": lambda f, states: ut.MarkovChain.box(f(LOW), f(HIGH), states),
    "ChainBox with one frame": lambda f, states: ChainBox(f(LOW), HIGH, STATES),
    "order two": lambda f, states: ut.MarkovChain.second_order(
        [f(ROWS), f(ROWS[::-1].copy()), f(ROWS)], states
    ),
    "hidden, any order": lambda f, states: ut.HiddenChain.of_order(f(ROWS), states),
    "periodic": lambda f, states: ut.MarkovChain.periodic(
        {"day": f(ROWS), "night": f(ROWS[::-1].copy())}, states, length=6
    ),
    "periodic list": lambda f, states: ut.MarkovChain.periodic(
        [f(ROWS), f(ROWS)], states, length=6
    ),
    "by context": lambda f, states: ut.MarkovChain.by_context(
        {"day": f(ROWS), "night": f(ROWS[::-1].copy())}, ["day", "night"], states, start=f(START)
    ),
    "network root": lambda f, states: ut.BayesianNetwork([], {0: f(START), 1: f(START)}, states),
    "network": lambda f, states: ut.BayesianNetwork([(0, 1)], {0: f(START), 1: f(ROWS)}, states),
    "network, one frame": lambda f, states: ut.BayesianNetwork(
        [(0, 1)], {0: START, 1: f(ROWS)}, STATES
    ),
}
"""Constructors of models with states; the second argument are the states, None or as they are."""

ORDERS = [
    pytest.param([0, 1, 2], [2, 0, 1], id="columns"),
    pytest.param([1, 2, 0], [0, 1, 2], id="rows"),
    pytest.param([2, 1, 0], [1, 0, 2], id="both"),
]


def same(one: Any, other: Any) -> bool:
    return bool(one == other)


@pytest.mark.parametrize(("rows", "columns"), ORDERS)
@pytest.mark.parametrize("name", TABLES)
def test_labels_are_put_in_the_order_of_the_states(name: str, rows: Any, columns: Any) -> None:
    made = TABLES[name](framed(STATES, rows, columns), STATES)
    assert same(made, TABLES[name](plain, STATES))


@pytest.mark.parametrize("name", TABLES)
def test_labels_are_adopted(name: str) -> None:
    """In the order of the rows; and where they are the states' own order nothing changes."""
    columns = None if "network" in name else [2, 0, 1]  # the first table of a network is a series
    made = TABLES[name](framed(STATES, None, columns), None)
    assert made.states == STATES
    assert same(made, TABLES[name](plain, STATES))


@pytest.mark.parametrize("name", TABLES)
def test_labels_that_do_not_agree_are_refused_with_both_sides(name: str) -> None:
    with pytest.raises(InvalidModel, match=r"'a', 'b', 'x'.*'a', 'b', 'c'"):
        TABLES[name](framed(("a", "b", "x")), STATES)


@pytest.mark.parametrize("name", TABLES)
def test_the_default_numbering_is_no_label(name: str) -> None:
    def numbered(table: Any) -> Any:
        held = np.asarray(table)
        return pd.Series(held) if held.ndim == 1 else pd.DataFrame(held)

    assert same(TABLES[name](numbered, STATES), TABLES[name](plain, STATES))


@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_columns_alone(library: str) -> None:
    """The rows have no names: the columns must stand in the order of the states."""

    def frame(names: tuple[str, ...]) -> Any:
        columns = {name: ROWS[:, place] for place, name in enumerate(names)}
        return pl.DataFrame(columns) if library == "polars" else pa.table(columns)

    assert ut.MarkovChain(frame(STATES)) == ut.MarkovChain(ROWS, STATES)
    assert ut.MarkovChain(frame(STATES), STATES) == ut.MarkovChain(ROWS, STATES)
    with pytest.raises(InvalidModel, match="another order"):
        ut.MarkovChain(frame(("b", "a", "c")), STATES)
    with pytest.raises(InvalidModel, match="'x', 'b', 'c'"):
        ut.MarkovChain(frame(("x", "b", "c")), STATES)


def test_numbers_as_labels() -> None:
    """0, 1 on one axis are labels where the other axis has 1, 0."""
    frame = pd.DataFrame(ROWS[:, [1, 0, 2]], columns=[1, 0, 2])
    assert labels_of(frame) == ((0, 1, 2), (1, 0, 2))
    assert ut.MarkovChain(frame) == ut.MarkovChain(ROWS)
    texts = pl.DataFrame({str(place): ROWS[:, place] for place in range(3)})
    assert ut.MarkovChain(texts, (0, 1, 2)) == ut.MarkovChain(ROWS)
    assert ut.MarkovChain(pl.DataFrame(ROWS)) == ut.MarkovChain(ROWS)


def test_a_dictionary_is_no_list_in_order() -> None:
    """Its keys were taken for the entries."""
    rows = pd.DataFrame([[0.9, 0.1], [0.3, 0.7]], index=["a", "b"], columns=["a", "b"])
    shown: Any = {"b": "x", "a": "y"}
    with pytest.raises(InvalidInput, match="dictionary"):
        ut.HiddenChain(rows, shown)
    with pytest.raises(InvalidInput, match="dictionary"):
        ut.MarkovChain(rows, start={"b": 0.8, "a": 0.2})
    weights: Any = {"b": 1.0, "a": 2.0}
    with pytest.raises(InvalidInput, match="dictionary"):
        ut.calibrate(ut.Series(), ut.MarkovChain(rows), 2.0, objective=weights)


def test_a_label_twice() -> None:
    frame = pd.DataFrame(ROWS, index=list("aab"), columns=list("aab"))
    with pytest.raises(InvalidModel, match="twice"):
        ut.MarkovChain(frame)


def test_hidden_states_have_names_of_their_own() -> None:
    symbols = ("idle", "idle", "active")
    truth = ut.HiddenChain(ROWS, symbols)
    frame = framed(STATES, [0, 1, 2], [2, 0, 1])(ROWS)
    shown = pd.Series(["active", "idle", "idle"], index=["c", "a", "b"])
    assert ut.HiddenChain(frame, symbols) == truth
    assert ut.HiddenChain(frame, shown, ("idle", "active")) == truth
    with pytest.raises(InvalidModel, match="'c', 'a', 'x'"):
        ut.HiddenChain(frame, pd.Series(["active", "idle", "idle"], index=["c", "a", "x"]))


def test_covariances() -> None:
    truth = ut.MultivariateGaussian([1, 2, 3], COVARIANCE)
    frame = framed(STATES, [0, 1, 2], [2, 0, 1])(COVARIANCE)
    mean = pd.Series([3, 1, 2], index=["c", "a", "b"])
    assert ut.MultivariateGaussian(mean, frame) == truth
    assert ut.MultivariateGaussian([1, 2, 3], frame) == truth
    assert ut.MultivariateGaussian(0, frame) == ut.MultivariateGaussian(0, COVARIANCE)
    with pytest.raises(InvalidModel, match=r"'c', 'a', 'x'.*'a', 'b', 'c'"):
        ut.MultivariateGaussian(pd.Series([3, 1, 2], index=["c", "a", "x"]), frame)
    with pytest.raises(InvalidModel, match=r"'a', 'b', 'x'"):
        ut.MultivariateGaussian(0, pd.DataFrame(COVARIANCE, list("abc"), list("abx")))


def test_latent_nodes_have_states_of_their_own() -> None:
    hidden, shows = np.array([0.4, 0.6]), np.array([[0.9, 0.05, 0.05], [0.1, 0.3, 0.6]])
    truth = ut.BayesianNetwork([("h", "x")], {"h": hidden, "x": shows}, STATES, ["h"])
    made = ut.BayesianNetwork(
        [("h", "x")],
        {
            "h": pd.Series(hidden, index=["off", "on"]),
            "x": pd.DataFrame(shows[::-1, [2, 0, 1]], ["on", "off"], ["c", "a", "b"]),
        },
        STATES,
        ["h"],
    )
    assert made == truth


def test_channels_name_their_outputs() -> None:
    channel = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    named = ut.RandomizedResponse(pl.DataFrame(channel, schema=list("xyz"), orient="row"))
    assert named.outputs == ("x", "y", "z")
    frame = pd.DataFrame(channel[:, [2, 0, 1]], columns=["c", "a", "b"])
    assert ut.RandomizedResponse(frame, STATES) == ut.RandomizedResponse(channel, STATES)
    with pytest.raises(InvalidModel, match=r"'c', 'a', 'b'.*'x', 'y', 'z'"):
        ut.RandomizedResponse(frame, ("x", "y", "z"))


ORDERED: dict[str, Callable[[Any], Any]] = {
    "weights": lambda f: ut.Linear(f(START), spread=1.0),
    "matrix of weights": lambda f: ut.Linear(f(ROWS), spread=1.0),
    "list of weights": lambda f: ut.Linear([f(START), f(START)], spread=1.0),
    "rows of a channel": lambda f: ut.RandomizedResponse(f(ROWS)),
    "erasures": lambda f: ut.Redaction(f(np.ones((3, 3)))),
    "sds": lambda f: ut.MultivariateGaussian.bounded(3, 0.1, sds=f(START)),
}
"""Constructors whose entries have no names that labels could be compared with."""


@pytest.mark.parametrize("name", ORDERED)
def test_labels_where_only_the_order_counts_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"labelled 'a', 'b', 'c'.*to_numpy"):
        ORDERED[name](framed())
    ORDERED[name](plain)
    ORDERED[name](framed((0, 1, 2)))
