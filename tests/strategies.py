"""Random models for hypothesis, and their joint tables by plain multiplication."""

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import reject
from hypothesis import strategies as st

import undertow as ut
from undertow.errors import InvalidModel

Floats = npt.NDArray[np.float64]

weights = st.one_of(
    st.integers(1, 1000).map(float),
    st.floats(1e-6, 1.0),
    st.sampled_from([1e-40, 1e-24, 1e-12, 1 / 3, 0.1]),
)
off_by_little = st.sampled_from([1.0, 1 + 4e-13, 1 - 4e-13, 1 + 2**-52])


@st.composite
def laws(draw: st.DrawFn, size: int, *, zeros: bool = True) -> list[float]:
    """Probabilities of `size` states; their sum is 1 up to what a caller may get wrong."""
    parts = draw(st.lists(weights, min_size=size, max_size=size))
    if zeros:
        kept = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
        parts = [part * keep for part, keep in zip(parts, kept, strict=True)]
    factor = draw(off_by_little) / math.fsum(parts)
    return [part * factor for part in parts]


@st.composite
def chains(draw: st.DrawFn, *, most: int = 4, named: bool = True) -> ut.MarkovChain:
    """Chains of every kind: with zeros, differing steps, given starts, any or a fixed length."""
    size = draw(st.integers(2, most))
    names: Any = None
    if named:
        label = st.one_of(st.text(max_size=5), st.integers(-5, 5), st.floats(-3, 3), st.booleans())
        names = draw(st.none() | st.lists(label, min_size=size, max_size=size, unique=True))
    kind = draw(st.sampled_from(["stationary", "given", "varying"]))
    if kind == "varying":
        steps = draw(st.integers(1, 4))
        stack = [[draw(laws(size)) for _ in range(size)] for _ in range(steps)]
        return _accepted(stack, names, start=draw(laws(size)))
    length = draw(st.none() | st.integers(2, 9))
    matrix = [draw(laws(size, zeros=kind == "given")) for _ in range(size)]
    start = draw(laws(size)) if kind == "given" else "stationary"
    return _accepted(matrix, names, start=start, length=length)


def _accepted(*description: Any, **more: Any) -> ut.MarkovChain:
    """The chain, unless steps that can occur are rarer than a model may say."""
    try:
        return ut.MarkovChain(*description, **more)
    except InvalidModel as error:
        if "is below 1e-100" in str(error):
            reject()
        raise


def models() -> st.SearchStrategy[Any]:
    """Chains, groups, and sets of them."""
    single = st.one_of(chains(), st.integers(1, 50).map(ut.Groups))
    pair = st.tuples(chains(), st.integers(1, 50).map(ut.Groups)).map(ut.ModelSet)
    return st.one_of(single, pair)


def joint(chain: ut.MarkovChain, records: int) -> Floats:
    """The probability of every series of `records` records, entry by entry."""
    table = np.zeros((chain.size,) * records)
    for series in itertools.product(range(chain.size), repeat=records):
        probability = float(chain.initial[series[0]])
        for record, (x, y) in enumerate(itertools.pairwise(series)):
            matrix = chain.transition if chain.transition.ndim == 2 else chain.transition[record]
            probability *= float(matrix[x, y])
        table[series] = probability
    return table


def marginal(table: Floats, *records: int) -> Floats:
    """The joint law of some records (in increasing order) from a joint table."""
    others = tuple(axis for axis in range(table.ndim) if axis not in records)
    return np.asarray(table.sum(axis=others))
