"""Sentences of reports: noise, guarantee, attackers covered and not covered, error bars."""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from undertow.adversaries import Adversary, words
from undertow.certificate import Witness
from undertow.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    RandomizedResponse,
    Redaction,
    XorNoise,
)
from undertow.models.base import Model
from undertow.models.records import CURATORS, Origin
from undertow.numerics import down
from undertow.plan import Plan
from undertow.queries import AnyQuery, Linear, Mean, Sum
from undertow.rounding import above, below, odds, stated

__all__ = [
    "attack",
    "audience",
    "covered",
    "levels",
    "measure",
    "noise",
    "not_covered",
    "odds_sentence",
    "origin",
    "promise",
    "record_ends",
    "rounding",
    "sentence",
    "unit",
]


_DRAWN = {
    "laplace": ("discrete Laplace noise on the lattice of steps", ""),
    "discrete-laplace": ("discrete Laplace noise", ""),
    "gaussian": ("Gaussian noise", ": a normal variable, drawn exactly, rounded to a whole number"),
    "discrete-gaussian": (
        "discrete Gaussian noise",
        ": a whole number z with probability ~ exp(-z^2 / (2 sigma^2)), drawn exactly",
    ),
}
"""The sampled distribution, before and after its amount."""


def noise(plan: Plan[Any]) -> str:
    """Return the sampled noise in words.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> noise(calibrate(Count(1), chain, 1.0, delta=1e-6, noise="gaussian", method="closed"))
    'Gaussian noise, sigma ...: a normal variable, drawn exactly, rounded to a whole number'
    """
    distribution = plan.noise
    after = distribution.query.adjustment()
    then = "" if after is None else f"; {after}"
    if distribution.measure == "table":
        return f"{distribution.describe()}; drawn exactly{then}"
    if distribution.query.selects:
        return f"{distribution.describe()}; drawn exactly{then}"
    name, more = _DRAWN[distribution.kind]
    steps = " of steps of the lattice" if more and not distribution.query.integral else ""
    return f"{name}, {distribution.measure} {above(distribution.amount)}{more}{steps}{then}"


def audience(plan: Plan[Any]) -> tuple[str, ...]:
    """Return the warning of a report for the curator only, empty for a public one.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]]).with_origin("not public")
    >>> print(audience(calibrate(Count(1), chain, limit=1.0))[0].partition(":")[0])
    For the curator only
    """
    if plan.audience == "public":
        return ()
    advice = "Papers that can be published need a fit through noise ('undertow fit --private')"
    return (f"For the curator only: {CURATORS}. {advice}",)


def origin(model: Model) -> tuple[str, ...]:
    """Return the kind of records that a model was fitted to, empty for one written by hand.

    >>> from undertow import Groups
    >>> origin(Groups(3).with_origin("private"))
    ('fitted to private records through noise',)
    """
    return _ORIGINS[model.origin]


_ORIGINS: dict[Origin, tuple[str, ...]] = {
    "hand": (),
    "public": ("fitted to public records",),
    "private": ("fitted to private records through noise",),
    "not public": ("fitted to private records without noise",),
}


def promise(plan: Plan[Any]) -> str:
    """Return the guarantee without its leakage, with every condition.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]]).with_origin("not public")
    >>> promise(calibrate(Count(1), chain, limit=1.0)).partition("; ")[0]
    'an attacker who knows any other records can raise the odds ... by at most a factor 2.72'
    """
    start, _, rest = plan.guarantee().partition(" (leakage")
    return start + rest.partition(")")[2]


def sentence(text: str) -> str:
    """Return a text with its first letter capitalised; names in it stay as they are.

    >>> sentence("number of records in 'BB'")
    "Number of records in 'BB'"
    """
    return text[:1].upper() + text[1:]


def shortfall(most: float, sure: str) -> str:
    """Return the error bar of a selection in words.

    >>> shortfall(12.0, "95%")[:60]
    'the count of every selected state is at most 12 below the la'
    """
    return (
        f"the count of every selected state is at most {above(most, 6)} below the largest among "
        f"the states not selected before it, with probability {sure}"
    )


def odds_sentence(plan: Plan[Any]) -> str:
    """Return the meaning of a leakage at a delta: the factor on odds and its rarity."""
    factor, window = odds(plan.leakage.upper + math.log(2)), plan.leakage.secret.window
    what = "values of a record" if window == 1 else f"histories of {window} records in a row"
    return (
        f"the odds between two {what} move by more than a factor {factor} (that is "
        f"2 e^{above(plan.leakage.upper, 4)}) with probability at most {stated(2 * plan.delta)}; "
        "how much farther is what the rest of the curve says"
    )


def levels(plan: Plan[Any]) -> str | None:
    """Return the mu and rho of one release with Gaussian noise, None for Laplace noise."""
    distribution = plan.noise
    if isinstance(distribution, Gaussian):
        mu, rho = distribution.mu_upper(plan.length), distribution.rho_upper(plan.length)
        return f"mu {above(mu)} of Gaussian DP for one replaced record, rho {above(rho)} of zCDP"
    if isinstance(distribution, DiscreteGaussian):
        return f"rho {above(distribution.rho_upper(plan.length))} of zCDP for one replaced record"
    return None


def unit(plan: Plan[Any]) -> str:
    """Return the unit of privacy: one record, a window, or all records of a person."""
    if plan.unit == "person":
        return (
            "one person: all records of a person at once are protected, whatever they are and "
            "however they depend on each other"
        )
    window = plan.leakage.secret.window
    if window > 1:
        return (
            f"a window of {window} records: the whole history of any {window} records in a row of "
            "a person's series is protected, with all that the records around them say about it; "
            "what more records say together, such as a habit, is not"
        )
    return (
        "one record: a single record of a person's series is protected, with all that the records "
        "around it say about it; what many records say together, such as a habit, is not"
    )


def covered(plan: Plan[Any]) -> str:
    """Return the attackers that the guarantee covers."""
    if plan.unit == "person":
        return "an attacker who knows any records of other persons, and any of this person"
    if isinstance(plan.against, Adversary):
        return f"only {words(plan.against, plan.leakage.secret.window)}"
    return {
        "any": (
            "an attacker who knows any other records of the person: none of them, some, or all, "
            "and their values"
        ),
        "ignorant": "an attacker who knows no other record of the person, and knows the model",
        "informed": "an attacker who knows all other records of the person, and their values",
    }[plan.against]


def not_covered(plan: Plan[Any]) -> list[str]:
    """Return what the guarantee does not cover.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=9)
    >>> not_covered(calibrate(Count(1), chain, limit=1.0, against="ignorant"))[0]
    'an attacker who knows some or all other records of the person: ...'
    """
    gaps = []
    match "any" if plan.unit == "person" else plan.against:
        case Adversary():
            gaps.append("every attacker who wants another record or knows other records")
        case "ignorant":
            gaps.append(_unforeseen(plan))
        case "informed":
            gaps.append(
                "an attacker who knows fewer records: where records depend on each other, an "
                "answer can tell more to somebody who knows less"
            )
    secret = plan.leakage.secret
    if secret.value_pairs is not None:
        gaps.append("telling other pairs of values apart than those named in the guarantee")
    if secret.targets is not None:
        gaps.append("records other than those named in the guarantee")
    dependent = (
        "records of one person that depend on those of another"
        if plan.unit == "person"
        else "records that depend on each other in another way than the model says"
    )
    return [
        *gaps,
        dependent,
        "which persons, times and groups have records, and how many: that is taken to be public",
        _others(plan),
    ]


def _others(plan: Plan[Any]) -> str:
    """Return the other releases that are not covered."""
    if plan.releases > 1:
        return (
            f"more than {plan.releases} releases with this noise on the same records, and releases "
            "of other plans, unless the same ledger accounts for them"
        )
    return "other releases from the same data, unless the same ledger accounts for them"


def _unforeseen(plan: Plan[Any]) -> str:
    """Return the bound for attackers outside a plan against the ignorant one."""
    who = "an attacker who knows some or all other records of the person: "
    mechanism = plan.mechanism
    dependent = isinstance(mechanism, Redaction | XorNoise)
    if dependent or (isinstance(mechanism, RandomizedResponse) and math.isinf(plan.dp_epsilon)):
        return who + "nothing is guaranteed"
    return who + (
        f"whoever knows all of them gains at most {_informed(plan)}, and for whoever knows some "
        "nothing is guaranteed"
    )


def _informed(plan: Plan[Any]) -> str:
    """Return the gain of an attacker who knows all other records."""
    if not plan.delta:
        return above(plan.dp_epsilon * plan.releases, 4)
    together = plan.noise.with_amount(down(plan.noise.amount / math.sqrt(plan.releases), 8))
    gain = together.curve(plan.length).epsilon(plan.delta)
    return f"{above(gain, 4)} at delta {stated(plan.delta)}"


def measure(name: str, value: float) -> tuple[str, str]:
    """Return a measure of a local plan: a label, and its value in words.

    >>> measure("utility", 0.5)
    ('utility', '50% of the records are shown on average')
    """
    shown = f"{below(100 * value, 6)}%"
    window = f"at most {shown} by erasing a window, against an attacker who knows no other record"
    texts = {
        "expected flips": f"{above(100 * value, 6)}% of the records are false on average",
        "information": f"{below(value, 6)} bits in an output about its record",
        "utility": f"{shown} of the records are shown on average",
        "window bound printed": f"{window}; as published",
        "window bound": f"{window}; corrected",
        "optimum": f"{shown} by the best erasures against the attacker covered",
    }
    labels = {"window bound printed": "windows, printed", "window bound": "windows"}
    return labels.get(name, name), texts.get(name, f"{value:.6g}")


def attack(witness: Witness, longer: bool = False) -> str:
    """Return an attack in words, runs of known records of one value joined.

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
        f"tells {witness.compared('from')}"
    )


def _seen(witness: Witness) -> str:
    """Return the event of an attack on a series in words, runs of one output joined."""
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
    """Return the largest error of rounding to the lattice in words, None without rounding.

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
            step = query.span() / lattice.steps
            most = 1.5 * step * rows
        case _:
            return None
    what = "weighted record" if isinstance(query, Linear) else "record"
    return (
        f"each {what} is rounded to the nearest step of {step:.6g} before the noise is added; "
        f"this moves the answer by at most {above(most)}"
    )
