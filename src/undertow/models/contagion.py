"""Who catches what from whom: the flu example of [wang2016] as networks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from undertow.base_query import BaseQuery, State
from undertow.errors import InvalidModel
from undertow.models.base import Model
from undertow.models.described import fields, number, whole
from undertow.models.network import BayesianNetwork
from undertow.numerics import check_count

__all__ = ["Contagion", "household"]

LARGEST = 12
"""Most people of a household: the last one's table has an axis for each of the others."""


def household(size: int, outside: float, passed: float) -> BayesianNetwork:
    """Return people who live together, each "well" or "ill".

    Everyone catches flu from outside with probability ``outside``, and from each ill person who
    was exposed before them with probability ``passed``:
    Pr[well | j ill before] = (1 - outside) (1 - passed)^j.

    >>> household(2, outside=.1, passed=.5).law(1).round(4)
    array([0.855, 0.145])
    """
    size = check_count(size, "size of the household", 1)
    if size > LARGEST:
        raise InvalidModel(f"a household has at most {LARGEST} people, found {size}; use Groups")
    for name, value in (("outside", outside), ("passed", passed)):
        if not 0 <= value <= 1:
            raise InvalidModel(f"{name} must be a probability, found {value}")
    cpds = {}
    for person in range(size):
        table = np.zeros((2,) * person + (2,))
        for before in product((0, 1), repeat=person):
            if outside == 1 or (passed == 1 and any(before)):
                table[before] = (0.0, 1.0)
                continue
            spared = math.log1p(-outside)
            spared += sum(before) * math.log1p(-passed) if any(before) else 0.0
            table[before] = (math.exp(spared), -math.expm1(spared))  # both good to the last digits
        cpds[person] = table
    edges = [(one, two) for two in range(size) for one in range(two)]
    return BayesianNetwork(edges, cpds, states=("well", "ill"))


@dataclass(frozen=True, slots=True)
class Contagion(Model):
    """Households like `household`, flu being passed on with a probability in an interval.

    The flu example of [wang2016]; the leakage is the worst over all probabilities from ``low`` to
    ``high``. ``outside`` is one number.

    >>> flu = Contagion(3, outside=.1, passed=(.1, .5))
    >>> flu.network(.1).law(1).round(4), flu.states
    (array([0.891, 0.109]), ('well', 'ill'))
    """

    kind: ClassVar[str] = "contagion"
    family: ClassVar[str] = "network"
    records_are_persons: ClassVar[bool] = True

    size: int
    outside: float
    passed: tuple[float, float]

    def __post_init__(self) -> None:
        """Check both ends."""
        ends = self.passed
        listed: object = ends
        if not isinstance(listed, Sequence) or len(listed) != 2:
            raise InvalidModel(f"passed must be two probabilities (low, high), found {ends!r}")
        for end in ends:
            household(self.size, self.outside, end)
        if ends[0] > ends[1]:
            raise InvalidModel(f"passed must be (low, high), found {ends!r}")
        object.__setattr__(self, "passed", (float(ends[0]), float(ends[1])))

    @property
    def length(self) -> int:
        """The number of people."""
        return self.size

    @property
    def states(self) -> tuple[State, ...]:
        """Well or ill."""
        return ("well", "ill")

    def network(self, passed: float) -> BayesianNetwork:
        """Return the household at one probability; every entry of its tables is monotone in it."""
        return household(self.size, self.outside, passed)

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the household at both ends of the interval."""
        return [self.network(passed) for passed in dict.fromkeys(self.passed)]

    def several(self) -> bool:
        """Return whether there is more than one probability of passing it on."""
        return self.passed[0] < self.passed[1]

    def describe(self) -> str:
        """Return the model in one sentence."""
        return (
            f"household of {self.size} people, flu caught outside with probability "
            f"{self.outside:g} and passed on with {self.passed[0]:g} to {self.passed[1]:g}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind, "size": self.size, "outside": self.outside,
            "passed": list(self.passed),
        }  # fmt: skip

    @classmethod
    def from_law_dict(cls, description: Any) -> "Contagion":
        """Return the model described by `law_dict`."""
        read = fields(description, "a contagion", ("outside", "passed", "size"), ("kind",))
        passed = read["passed"]
        if not isinstance(passed, list | tuple) or len(passed) != 2:
            raise InvalidModel("'passed' must be two probabilities, the least and the largest")
        low, high = (number(end, "passed") for end in passed)
        return cls(whole(read["size"], "size"), number(read["outside"], "outside"), (low, high))
