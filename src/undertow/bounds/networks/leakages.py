"""What a mechanism leaks on a Bayesian network."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from undertow.adversaries import Adversary, Against, check_against, check_records
from undertow.bounds.graphs import informed_attack
from undertow.bounds.metric import refused
from undertow.bounds.networks.counts import Finding, count_finding
from undertow.bounds.networks.levels import level_leakage
from undertow.bounds.networks.tally import Tally, count_tally, histogram_tally
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Levelled, MetricDP, Noise, PureDP
from undertow.models.network import BayesianNetwork
from undertow.numerics import divide_up, down, up
from undertow.queries import Count, Histogram

__all__ = ["leakage"]

FOLLOWS = "the records follow the stated network"

LATTICE = 4_000_000
"""Most pairs of an answer and an output of a histogram (memory)."""

TOGETHER = 64
"""Most records whose unknown part is counted exactly when nothing, or not all, is known."""


def leakage(
    mechanism: Levelled | MetricDP, model: BayesianNetwork, against: Against = "any"
) -> Leakage:  # fmt: skip
    """Return what a mechanism leaks about one record of a network, as a certified interval.

    Counts and histograms with (discrete) Laplace noise are exact on small networks: all known
    sets, values and outputs are gone through, siblings as one. Cost (k + 1)^n for n records of k
    states, where exchangeable leaves count little. Connected components of the network
    are looked at one by one: the worst attacker knows the others. Where a part is too large, and
    for every other mechanism, the bound for all algorithms of the same DP level is in force.

    >>> from undertow.mechanisms import Laplace
    >>> twins = BayesianNetwork([("a", "b")], {"a": [.5, .5], "b": [[1, 0], [0, 1]]})
    >>> leak = leakage(Laplace(Count(1), scale=4.0), twins)
    >>> round(leak.upper, 9), leak.method
    (0.5, 'exact')
    """
    mechanism, against = refused(mechanism), check_against(against)
    check_records(against, model.length)
    if isinstance(mechanism, PureDP):
        return level_leakage(mechanism.epsilon, model, against)
    if isinstance(mechanism.query, Count | Histogram):
        return _noisy(mechanism, model, against)
    level = mechanism.level_upper(model.length)
    return replace(level_leakage(level, model, against), lower=0.0, witness=None)


def tally_of(query: Count | Histogram, model: BayesianNetwork, records: int) -> Tally:
    """Return the lattice of a query's answer on some records of a network.

    Refuses with `NotSupported` a histogram with too many outputs.
    """
    if isinstance(query, Histogram):
        answers, outputs = (records + 1) ** (model.size - 1), (records + 2) ** model.size
        if answers * outputs > LATTICE:
            raise NotSupported(
                f"a histogram of {records} records has too many outputs to go through"
            )
        return histogram_tally(model.size, records)
    counted = [model.index(state) for state in query.states]
    return count_tally([state in counted for state in range(model.size)], records)


def _noisy(mechanism: Noise, model: BayesianNetwork, against: Against) -> Leakage:
    if against == "informed":
        return _informed(mechanism, model)
    parts = model.parts()
    if against != "any":
        if model.length <= TOGETHER:
            return _whole(mechanism, model, against)
        if isinstance(against, Adversary):
            wanted = model.records[against.target]
            part = next(part for part in parts if wanted in part.records)
            return _apart(mechanism, model, part, _local(model, part, against), against)
    seen: dict[object, Leakage] = {}
    for part in parts:
        shape = _shape(part)
        if shape not in seen:
            seen[shape] = _apart(mechanism, model, part, against, against)
    return worst(list(seen.values()))


def worst(found: list[Leakage]) -> Leakage:
    """Return the worst of several leakages about independent parts of the same records."""
    top = max(found, key=lambda leak: (leak.upper, leak.lower))
    shown = max(found, key=lambda leak: leak.lower)
    notes = dict.fromkeys(note for leak in found for note in leak.assumptions)
    return replace(top, lower=shown.lower, witness=shown.witness, assumptions=tuple(notes))


def _whole(mechanism: Noise, model: BayesianNetwork, against: Against) -> Leakage:
    """Return the leakage to an attacker who leaves records unknown, all of them counted."""
    try:
        tally = tally_of(_counted(mechanism), model, model.length)
        found = count_finding(model, tally, 1 / mechanism.scale, against)
    except NotSupported as error:
        return _fallback(mechanism, model, against, str(error))
    return _exact(found, model, tally, against, mechanism)


def _apart(
    mechanism: Noise, model: BayesianNetwork, part: BayesianNetwork, local: Against,
    against: Against,
) -> Leakage:  # fmt: skip
    """Return the leakage about the records of one part.

    The worst attacker knows all records outside it. One who leaves some unknown learns no more
    than that, and at far outputs, which factorise over records, just as much.
    """
    try:
        tally = tally_of(_counted(mechanism), part, part.length)
        found = count_finding(part, tally, 1 / mechanism.scale, local)
    except NotSupported as error:
        return _lifted(_fallback(mechanism, part, local, str(error)), part, model, against)
    leak = _lifted(_exact(found, part, tally, local, mechanism), part, model, against)
    if against == "any" or found is None or part.length == model.length:
        return leak
    far = max(down(found.far - found.pad), 0.0)
    return replace(
        leak, lower=min(far, leak.upper), witness=None,
        assumptions=(*leak.assumptions, "records of other parts of the network may be known"),
    )  # fmt: skip


def _exact(
    found: Finding | None, model: BayesianNetwork, tally: Tally, against: Against,
    mechanism: Noise,
) -> Leakage:  # fmt: skip
    """Return the leakage of an attack, never above the general bound."""
    if found is None:
        return _leakage(0.0, 0.0, against, None)
    moved = Fraction(model.length) * Fraction(mechanism.query.sensitivity(model.length))
    upper = min(up(found.value + found.pad), divide_up(moved, mechanism.scale))
    lower = min(max(down(found.value - found.pad), 0.0), upper)
    return _leakage(lower, upper, against, found.witness(model, tally))


def _fallback(mechanism: Noise, model: BayesianNetwork, against: Against, reason: str) -> Leakage:
    """Return the bound for all algorithms of the same DP level, with what the count attains."""
    level = divide_up(mechanism.query.sensitivity(model.length), mechanism.scale)
    bound = level_leakage(level, model, against)
    lower, witness = 0.0, None
    if against == "any":
        weaker = [_informed(mechanism, model)]
        try:
            tally = tally_of(_counted(mechanism), model, model.length)
            found = count_finding(model, tally, 1 / mechanism.scale, "ignorant")
            weaker.append(_exact(found, model, tally, against, mechanism))
        except NotSupported:
            pass
        shown = max(weaker, key=lambda leak: leak.lower)
        lower, witness = min(shown.lower, bound.upper), shown.witness
    note = f"not exact, because {reason}"
    return replace(
        bound, lower=lower, witness=witness, assumptions=(*bound.assumptions, note)
    )  # fmt: skip


def _informed(mechanism: Noise, model: BayesianNetwork) -> Leakage:
    """Return how far one record alone moves the answer, if the others can leave it open."""
    tally = tally_of(_counted(mechanism), model, 1)
    rate = 1 / mechanism.scale
    moved = tally.points[list(tally.offsets)]
    pairs = [(x, y) for x in range(model.size) for y in range(model.size) if x != y]
    worth = {(x, y): float(np.abs(moved[x] - moved[y]).sum()) * rate for x, y in pairs}
    amount, witness = informed_attack(model, worth)
    lower = 0.0 if witness is None else down(amount)
    return _leakage(lower, up(amount) if amount else 0.0, "informed", witness)


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        lower, upper, "exact", against, witness,
        assumptions=(FOLLOWS,), citation="docs, theory: noisy counts",
    )  # fmt: skip


def _lifted(
    leak: Leakage, part: BayesianNetwork, model: BayesianNetwork, against: Against
) -> Leakage:  # fmt: skip
    """Return a part's leakage with its records numbered as in the whole network."""
    if leak.witness is None or part.length == model.length:
        return replace(leak, against=against)
    place = {node: number for number, node in enumerate(model.records)}
    number = [place[node] for node in part.records]
    witness = replace(
        leak.witness,
        target=number[leak.witness.target],
        length=model.length,
        known=tuple((number[record], value) for record, value in leak.witness.known),
        sets=tuple((number[record], states) for record, states in leak.witness.sets),
    )
    return replace(leak, against=against, witness=witness)


def _local(model: BayesianNetwork, part: BayesianNetwork, against: Adversary) -> Adversary:
    """Return the adversary with the records of one part, numbered as there."""
    place = {node: number for number, node in enumerate(part.records)}
    known = [model.records[record] for record in against.known]
    return Adversary(
        place[model.records[against.target]], [place[node] for node in known if node in place]
    )


def _shape(part: BayesianNetwork) -> object:
    """Return what the leakage of a part depends on: all but the names of its nodes."""
    latent = tuple(node in part.latent for node in part.nodes)
    return part.parents, latent, tuple(table.tobytes() for table in part.tables)


def _counted(mechanism: Noise) -> Count | Histogram:
    if not isinstance(mechanism.query, Count | Histogram):
        raise InvalidInput(f"a count or a histogram is required, found {mechanism.query!r}")
    return mechanism.query
