"""Examples: a model each, and simulated records that follow it."""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from undertow import MarkovChain, MultivariateGaussian, Pedigree
from undertow.errors import InvalidInput
from undertow.models import Contagion
from undertow.models.records import RecordDescription, StateRule
from undertow.models.sets import AnyModel
from undertow_studio.tables import Folder, PrivateTable, Reading

__all__ = ["EXAMPLES", "example"]

_SEED = 2024
_PERSONS, _DAYS, _STEPS = 8, 7, 288

_ACTIVITY = ((0.882, 0.118), (0.305, 0.695))
"""Activity in steps of five minutes, row = from: section 8.4.3 of [lange2024]."""

_PARENTS = {
    "aunt": ("grandfather", "grandmother"),
    "father": ("grandfather", "grandmother"),
    "daughter": ("father", "mother"),
    "son": ("father", "mother"),
}


@dataclass(frozen=True, slots=True)
class Example:
    """An example: its words, how its records are read, its model (None: fitted to them)."""

    name: str
    title: str
    words: str
    file: str
    reading: Reading
    records: Callable[[random.Random], str]
    model: Callable[[], AnyModel] | None = None
    every: str = ""

    def source(self, folder: Folder) -> PrivateTable:
        """Return its simulated records as a table, the same on every machine."""
        return folder.write(self.file, self.records(random.Random(_SEED)), simulated=True)


def example(name: str) -> Example:
    """Return the example of that name."""
    for one in EXAMPLES:
        if one.name == name:
            return one
    raise InvalidInput(f"the examples are {', '.join(one.name for one in EXAMPLES)}")


def _activity(draw: random.Random) -> str:
    """Return a week of steps in five minutes of some persons, each a walk of the chain."""
    start = dt.datetime(2026, 1, 5)
    lines = ["person,time,steps"]
    for person in range(1, _PERSONS + 1):
        active = draw.random() < 0.279  # its stationary law
        for step in range(_DAYS * _STEPS):
            when = start + dt.timedelta(minutes=5 * step)
            steps = draw.randint(4, 460) if active else 0
            lines.append(f"P{person},{when:%Y-%m-%d %H:%M},{steps}")
            active = draw.random() < _ACTIVITY[int(active)][1]
    return "\n".join(lines) + "\n"


def _family(draw: random.Random) -> str:
    """Return genotypes of a family: founders by frequency, children by Mendel."""
    model = _pedigree()
    alleles: dict[Any, tuple[str, str]] = {}

    def of(person: Any) -> tuple[str, str]:
        if person not in alleles:
            if person in _PARENTS:
                father, mother = (of(parent) for parent in _PARENTS[person])
                alleles[person] = (draw.choice(father), draw.choice(mother))
            else:
                alleles[person] = tuple(  # type: ignore[assignment]
                    "B" if draw.random() < 0.2 else "b" for _ in range(2)
                )
        return alleles[person]

    rows = [f"{person},{''.join(sorted(of(person)))}" for person in model.people]
    return "\n".join(["relative,genotype", *rows]) + "\n"


def _household(draw: random.Random) -> str:
    states = _flu().network(0.3).simulate(seed=draw.randrange(10**6))
    return "\n".join(["health", *map(str, states)]) + "\n"


def _pressure(draw: random.Random) -> str:
    shared = draw.gauss(0, 1)
    values = [120 + 15 * (shared * 0.6**0.5 + draw.gauss(0, 1) * 0.4**0.5) for _ in range(4)]
    return "\n".join(["pressure", *(f"{value:.0f}" for value in values)]) + "\n"


def _chain() -> MarkovChain:
    about = RecordDescription(every="5m", state=StateRule("value > 0"), unit="person")
    return MarkovChain(_ACTIVITY, ("inactive", "active")).with_records(about)


def _pedigree() -> Pedigree:
    return Pedigree(parents=_PARENTS, allele_frequency=0.2)


def _flu() -> Contagion:
    return Contagion(3, outside=0.1, passed=(0.1, 0.5))


def _gaussian() -> MultivariateGaussian:
    covariance = [[225.0 * (1.0 if i == j else 0.6) for j in range(4)] for i in range(4)]
    return MultivariateGaussian([120.0] * 4, covariance)


EXAMPLES = (
    Example(
        "activity",
        "A week of activity",
        "Eight people wear a step counter. Each five minutes depend on the five minutes before.",
        "activity.csv",
        Reading("steps", "person", "time", "5m", "steps > 0", ("inactive", "active")),
        _activity,
        _chain,
        every="5m",
    ),
    Example(
        "family",
        "A family",
        "Seven relatives take a genetic test. Their genotypes depend on each other.",
        "family.csv",
        Reading("genotype"),
        _family,
        _pedigree,
    ),
    Example(
        "household",
        "A household",
        "Three people live together and infect each other with the flu.",
        "household.csv",
        Reading("health"),
        _household,
        _flu,
    ),
    Example(
        "correlation",
        "Correlated measurements",
        "The blood pressures of four relatives.",
        "pressure.csv",
        Reading("pressure"),
        _pressure,
        _gaussian,
    ),
)
"""The examples, in the order in which they are shown."""
