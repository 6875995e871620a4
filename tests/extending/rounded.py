"""A method as somebody would add it: noise whose scale is a power of two."""

import math
from dataclasses import replace

from undertow.certificate import Leakage
from undertow.methods import Method, Scope
from undertow.planning.chains import EXCHANGE
from undertow.planning.questions import Question, Scaled, noise_solver


def solve_power(question: Question) -> Scaled:
    """Return noise with the least power of two that is enough as its scale.

    More noise of the same kind is post-processing of less: the leakage does not grow.
    """
    least: Scaled = EXCHANGE.solve(question).mechanism
    return question.noise(2.0 ** math.ceil(math.log2(least.scale)))


def prove_power(question: Question, noise: Scaled) -> Leakage:
    """Return what all algorithms of the DP level of a noise could leak."""
    leak: Leakage = EXCHANGE.prove(question, noise)
    return replace(leak, method="power-of-two")


POWER_OF_TWO = Method(
    "power-of-two",
    "answer",
    "the exchange rate, with a scale that is a power of two",
    "docs, theory: exchange rate",
    {"laplace": noise_solver(solve_power, prove_power)},
    Scope(valid_for="any"),
)
"""The entry of the registry: an answer, on chains, against any adversary, on data of any shape."""
