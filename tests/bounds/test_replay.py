"""Witnesses of counts re-evaluated: what the attacker sees at any answer, against whole tables."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels.replay import replay_count
from undertow.certificate import Witness

SCALE = 1.3


def seen(chain, witness):
    """ln Pr[answer | value, known] / Pr[answer | other, known], summed over all series."""
    length, known = witness.length, dict(witness.known)
    law = chain.law(0)
    sums: dict[Any, list[tuple[float, float]]] = {witness.value: [], witness.other: []}
    first = max((record for record in known if record < witness.target), default=-1)
    last = min((record for record in known if record > witness.target), default=length)
    for series in itertools.product(range(chain.size), repeat=length):
        if any(series[record] != value for record, value in known.items()):
            continue
        if (own := series[witness.target]) not in sums:
            continue
        steps = itertools.pairwise(series)
        mass = law[series[0]] * math.prod(chain.step(t)[x, y] for t, (x, y) in enumerate(steps))
        count = sum(value == 1 for value in series[first + 1 : last])
        sums[own].append((mass, mass * math.exp(-abs(witness.output - count) / SCALE)))
    told = [
        math.fsum(b for _, b in sums[value]) / math.fsum(a for a, _ in sums[value])
        for value in (witness.value, witness.other)
    ]
    return math.log(told[0] / told[1])


@pytest.mark.parametrize("seed", [0, 1])
def test_no_answer_between_the_ends_is_said_to_show_more_than_it_does(seed):
    draw = np.random.default_rng(seed)
    size, length = 2 + seed % 2, 5
    chain = ut.MarkovChain(draw.dirichlet(np.ones(size), size), length=length)
    for target, known in ((2, ()), (2, ((0, 1),)), (1, ((4, 0),)), (3, ((1, 1), (4, 0)))):
        for output in (1, 2):
            attack = Witness(target, length, known, value=1, other=0, output=output)
            told, value = replay_count(attack, chain, [1], SCALE)
            truth = seen(chain, attack)
            assert told.output == output
            assert value <= truth + 1e-15
            assert value == pytest.approx(truth, abs=1e-9)
