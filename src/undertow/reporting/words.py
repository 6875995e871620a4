"""A release in plain words: what was asked, who is kept from what, what the answer is worth."""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from undertow.adversaries import Adversary, words
from undertow.certificate import Witness
from undertow.channels import RandomizedResponse, Redaction, XorNoise
from undertow.mechanisms import DiscreteLaplace
from undertow.plan import Plan
from undertow.queries import AnyQuery, Linear, Mean, Sum
from undertow.rounding import above, below

__all__ = [
    "attack",
    "covered",
    "measure",
    "noise",
    "not_covered",
    "record_ends",
    "rounding",
    "unit",
]


def noise(plan: Plan) -> str:
    """Return the noise in words."""
    whole = isinstance(plan.noise, DiscreteLaplace)
    kind = "discrete Laplace noise" if whole else "discrete Laplace noise on the lattice of steps"
    return f"{kind}, scale {above(plan.noise.scale)}"


def unit(plan: Plan[Any]) -> str:
    """Return what the guarantee is about: one record, or all records of a person."""
    if plan.unit == "person":
        return (
            "one person: all records of a person at once are protected, whatever they are and "
            "however they depend on each other"
        )
    return (
        "one record: a single record of a person's series is protected, with all that the records "
        "around it say about it; what many records say together, such as a habit, is not"
    )


def covered(plan: Plan[Any]) -> str:
    """Return the attackers that the guarantee is made against."""
    if plan.unit == "person":
        return "an attacker who knows any records of other persons, and any of this person"
    if isinstance(plan.against, Adversary):
        return f"only {words(plan.against)}"
    return {
        "any": (
            "an attacker who knows any other records of the person: none of them, some, or all, "
            "and their values"
        ),
        "ignorant": "an attacker who knows no other record of the person, and knows the model",
        "informed": "an attacker who knows all other records of the person, and their values",
    }[plan.against]


def not_covered(plan: Plan[Any]) -> list[str]:
    """Return what the guarantee does not say, so that nobody reads more into it.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=9)
    >>> not_covered(calibrate(Count(1), chain, limit=1.0, against="ignorant"))[0]
    'an attacker who knows some or all other records of the person: ...'
    """
    found = []
    match "any" if plan.unit == "person" else plan.against:
        case Adversary():
            found.append("every attacker who wants another record or knows other records")
        case "ignorant":
            found.append(_unforeseen(plan))
        case "informed":
            found.append(
                "an attacker who knows fewer records: where records depend on each other, an "
                "answer can tell more to somebody who knows less"
            )
    secrets = plan.leakage.secrets
    if secrets.pairs is not None:
        found.append("telling other pairs of values apart than those named in the guarantee")
    if secrets.records is not None:
        found.append("records other than those named in the guarantee")
    dependent = (
        "records of one person that depend on those of another"
        if plan.unit == "person"
        else "records that depend on each other in another way than the model says"
    )
    return [
        *found,
        dependent,
        "which persons, times and groups have records, and how many: that is held to be public",
        "other releases from the same data, unless the same ledger accounts for them",
    ]


def _unforeseen(plan: Plan[Any]) -> str:
    """Return what is known about attackers whom a plan against the ignorant one leaves out."""
    who = "an attacker who knows some or all other records of the person: "
    mechanism = plan.mechanism
    dependent = isinstance(mechanism, Redaction | XorNoise)
    if dependent or (isinstance(mechanism, RandomizedResponse) and math.isinf(plan.dp_epsilon)):
        return who + "nothing is guaranteed"
    return who + (
        f"whoever knows all of them gains at most {above(plan.dp_epsilon, 4)}, and for whoever "
        "knows some nothing is guaranteed"
    )


def measure(name: str, value: float) -> tuple[str, str]:
    """Return a measure of a local plan: a label, and what it says.

    >>> measure("utility", 0.5)
    ('utility', '50% of the records are shown on average')
    """
    shown = f"{below(100 * value, 6)}%"
    window = f"at most {shown} by erasing a window, against an attacker who knows no other record"
    told = {
        "expected flips": f"{above(100 * value, 6)}% of the records are false on average",
        "information": f"{below(value, 6)} bits in an output about its record",
        "utility": f"{shown} of the records are shown on average",
        "window bound printed": f"{window}; as published",
        "window bound": f"{window}; corrected",
        "optimum": f"{shown} by the best erasures against the attacker covered",
    }
    labels = {"window bound printed": "windows, printed", "window bound": "windows"}
    return labels.get(name, name), told.get(name, f"{value:.6g}")


def attack(witness: Witness, longer: bool = False) -> str:
    """Return an attack in words, runs of known records of one value told together.

    ``longer`` says that the model has no length: the records are a pattern within a longer series.

    >>> attack(Witness(4, 9, ((0, "a"), (1, "a"), (2, "a"), (8, "b")), "a", "b"))
    "... record 4 of 9, knowing records 0 to 2 ('a') and 8 ('b'), and tells 'a' from 'b'"
    """
    runs = [f"{ends} ({value!r})" for ends, value in record_ends(witness.known)]
    shown = f"{', '.join(runs[:-1])} and {runs[-1]}" if len(runs) > 1 else "".join(runs)
    several = len(witness.known) > 1
    known = f"knowing record{'s' * several} {shown}" if runs else "knowing no other record"
    seen = f", once {_seen(witness)}," if witness.outputs else ","
    return (
        f"an attacker who wants {witness.place(longer)}, {known}{seen} and "
        f"tells {witness.value!r} from {witness.other!r}"
    )


def _seen(witness: Witness) -> str:
    """Return what the attacker waits for in a series, runs of one output told together."""
    runs = [
        f"{ends} {'erased' if output is None else f'as {output!r}'}"
        for ends, output in record_ends(witness.outputs)
    ]
    shown = "; ".join(runs[:6]) + (f"; and {len(runs) - 6} more runs" if len(runs) > 6 else "")
    return f"records are seen: {shown}"


def record_ends(pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield runs of neighbouring records of one value: their ends in words, and the value.

    >>> list(record_ends([(0, "a"), (1, "a"), (2, "b")]))
    [('0 to 1', 'a'), ('2', 'b')]
    """
    ordered = enumerate(sorted(pairs, key=lambda pair: pair[0]))
    for (_, value), run in groupby(ordered, lambda pair: (pair[1][0] - pair[0], pair[1][1])):
        records = [record for _, (record, _) in run]
        yield f"{records[0]} to {records[-1]}" if len(records) > 1 else f"{records[0]}", value


def rounding(query: AnyQuery, rows: int) -> str | None:
    """Return how far rounding to the lattice can move an answer, None where nothing is rounded.

    A sum moves by half a step per record at most, a mean by half a step. In a linear statistic
    the record, its weight and their product are rounded, each by half a step at most.

    >>> rounding(Sum(0, 16, steps=2**10), rows=100)
    'each record is rounded to the nearest step of 0.015625 before ... at most 0.78125'
    """
    match query:
        case Sum() | Mean():
            step = (float(query.upper) - float(query.lower)) / query.steps
            most = step / 2 * (rows if isinstance(query, Sum) else 1)
        case Linear():
            lattice = query.lattice()
            step = query.sensitivity() / lattice.steps
            most = 1.5 * step * rows
        case _:
            return None
    what = "weighted record" if isinstance(query, Linear) else "record"
    return (
        f"each {what} is rounded to the nearest step of {step:.6g} before the noise is added; "
        f"this moves the answer by at most {above(most)}"
    )
