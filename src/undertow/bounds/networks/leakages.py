"""Leakage of mechanisms on a Bayesian network."""

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np

from undertow.adversaries import Against, check_against, check_records, within
from undertow.bounds.graphs import informed_attack, lifted
from undertow.bounds.memory.attractive_networks import Ratios, attractive_leakage
from undertow.bounds.metric import refused
from undertow.bounds.networks.counts import (
    AnswerLattice,
    CaseLoss,
    count_loss,
    count_tally,
    histogram_tally,
)
from undertow.bounds.networks.levels import (
    FOLLOWS,
    distinct_parts,
    level_leakage,
    path_leakage,
    path_of,
    worst,
)
from undertow.bounds.protocol import AnswerProver, ChannelProver, Prover
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    MetricDP,
    PureDP,
    RandomizedResponse,
    Scaled,
)
from undertow.models.networks import BayesianNetwork
from undertow.numerics import divide_up, down, log_error, log_ratio, up
from undertow.queries import BaseQuery, Count, Histogram

__all__ = [
    "PROVERS",
    "leakage",
    "local",
]


MOST_POINTS = 4_000_000
"""Most pairs of an answer and an output of a histogram (memory)."""

MOST_TOGETHER = 64
"""Most records whose unknown part is counted exactly when nothing, or not all, is known."""


def leakage(
    mechanism: Levelled | MetricDP, model: BayesianNetwork, against: Against = "any"
) -> Leakage:  # fmt: skip
    """Compute the leakage of a mechanism about one record of a network, as an interval.

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
    return level_leakage(level, model, against).upper_only()


def tally_of(query: BaseQuery, model: BayesianNetwork, records: int) -> AnswerLattice:
    """Return the lattice of a count's or a histogram's answer on some records of a network.

    Refuses with `NotSupported` a histogram with too many outputs, and all other queries.
    """
    if isinstance(query, Histogram):
        answers, outputs = (records + 1) ** (model.size - 1), (records + 2) ** model.size
        if answers * outputs > MOST_POINTS:
            raise NotSupported(
                f"a histogram of {records} records has too many outputs to go through"
            )
        return histogram_tally(model.size, records)
    if not isinstance(query, Count):
        raise NotSupported(f"a count or a histogram is required, found {query!r}")
    counted = [model.index(state) for state in query.states]
    return count_tally([state in counted for state in range(model.size)], records)


def _noisy(mechanism: Scaled, model: BayesianNetwork, against: Against) -> Leakage:
    """Return the leakage of a noisy count or histogram, part by part."""
    if against == "informed":
        return _informed(mechanism, model)
    if against != "any" and model.length <= MOST_TOGETHER:
        return _part_bracket(mechanism, model, model, against)
    parts = distinct_parts(model, against)
    return worst([_part_bracket(mechanism, model, part, against) for part, _ in parts])


def _part_bracket(
    mechanism: Scaled, model: BayesianNetwork, part: BayesianNetwork, against: Against
) -> Leakage:  # fmt: skip
    """Return the leakage about the records of one part, or of the whole network.

    The worst attacker knows all records outside it. One who leaves some unknown learns no more
    than that, and at far outputs, which factorise over records, just as much.
    """
    place = {node: number for number, node in enumerate(model.observed)}
    records = [place[node] for node in part.observed]
    local = within(against, records)
    finding = None
    try:
        tally = tally_of(mechanism.query, part, part.length)
        finding = count_loss(part, tally, 1 / mechanism.scale, local)
        leak = _exact(finding, part, tally, local, mechanism)
    except NotSupported as error:
        leak = _fallback(mechanism, part, local, str(error))
    witness = leak.witness and lifted(leak.witness, records, model.length)
    leak = replace(leak, against=against, witness=witness)
    if against == "any" or finding is None or part.length == model.length:
        return leak
    far = max(down(finding.far - finding.pad), 0.0)
    return replace(
        leak, lower=min(far, leak.upper), witness=None,
        assumptions=(*leak.assumptions, "records of other parts of the network may be known"),
    )  # fmt: skip


def _exact(
    finding: CaseLoss | None, model: BayesianNetwork, tally: AnswerLattice, against: Against,
    mechanism: Scaled,
) -> Leakage:  # fmt: skip
    """Return the leakage of an attack, never above the general bound."""
    if finding is None:
        return _leakage(0.0, 0.0, against, None)
    # all records replaced
    moved = Fraction(model.length) * Fraction(mechanism.query.sensitivity_upper(model.length))
    upper = min(up(finding.value + finding.pad), divide_up(moved, mechanism.scale))
    lower = min(max(down(finding.value - finding.pad), 0.0), upper)
    return _leakage(lower, upper, against, finding.witness(model, tally))


def _fallback(mechanism: Scaled, model: BayesianNetwork, against: Against, reason: str) -> Leakage:
    """Return the leakage of a chain, if the network is one, or the bound for all algorithms.

    The lower end is what the count attains.
    """
    known = _far(mechanism, model, against)
    if known is not None:
        return known
    path = path_of(model)
    if path is not None and path.quick:
        return path_leakage(mechanism, path, against)
    level = divide_up(mechanism.query.sensitivity_upper(model.length), mechanism.scale)
    bound = level_leakage(level, model, against)
    lower, witness = 0.0, None
    if against == "any":
        weaker = [_informed(mechanism, model)]
        with suppress(NotSupported):
            tally = tally_of(mechanism.query, model, model.length)
            finding = count_loss(model, tally, 1 / mechanism.scale, "ignorant")
            weaker.append(_exact(finding, model, tally, against, mechanism))
        shown = max(weaker, key=lambda leak: leak.lower)
        lower, witness = min(shown.lower, bound.upper), shown.witness
    note = f"not exact, because {reason}"
    return replace(
        bound, lower=lower, witness=witness, assumptions=(*bound.assumptions, note)
    )  # fmt: skip


def _far(mechanism: Scaled, model: BayesianNetwork, against: Against) -> Leakage | None:
    """Return the exact leakage of a count on an attractive network of two states: far answers.

    None where it is not known so, or where records would have to be weighed in opposite ways.
    """
    if len(mechanism.query.named) != 1:
        return None
    rate = 1 / mechanism.scale
    bracket = attractive_leakage(Ratios.level(up(rate), down(rate)), model, against)
    if bracket is None or not bracket[1].alike:
        return None
    leak, attack = bracket
    counted = model.index(mechanism.query.named[0])
    high = model.length - len(attack.known)  # beyond all answers of the unknown records
    output = high if attack.pair[0] == counted else 0
    return replace(leak, witness=leak.witness and replace(leak.witness, sets=(), output=output))


def local(
    mechanism: LocalMechanism, model: BayesianNetwork, against: Against, effort: int
) -> Leakage:
    """Compute the leakage of flips of every record on a network.

    Exact where the law is attractive, of two states: the worst outputs are known. Elsewhere refuse,
    because all algorithms of the flips' DP level bound it.

    >>> from undertow.adversaries import Adversary
    >>> path = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[.9, .1], [.2, .8]]})
    >>> leak = local(RandomizedResponse.binary(.25, .25), path, Adversary(0), 2)
    >>> round(leak.lower, 6), round(leak.upper, 6)
    (1.871802, 1.871802)
    """
    if not isinstance(mechanism, RandomizedResponse):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks is known for a MarkovChain, found "
            f"{model.describe()}; use a chain, or a ModelSet of chains"
        )
    if mechanism.inputs != model.size:
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the model has {model.size}; they "
            "must agree"
        )
    check_records(against, model.length)
    if against != "informed" and model.size == 2:
        parts = distinct_parts(model, against)
        leaks = [_part_flips(mechanism, model, part, records, against) for part, records in parts]
        if all(leak is not None for leak in leaks):
            return worst([leak for leak in leaks if leak is not None])
    raise NotSupported("what flips leak by themselves is known on attractive laws of two states")


def _part_flips(
    mechanism: RandomizedResponse, model: BayesianNetwork, part: BayesianNetwork,
    records: list[int], against: Against,
) -> Leakage | None:  # fmt: skip
    """Return the exact leakage of flips about one attractive part, None where it is not known."""
    matrix = mechanism.matrix
    if not (matrix > 0).all():
        return None
    logs = log_ratio(matrix, matrix[::-1])  # (states, outputs): ln M(v, y) / M(1 - v, y)
    error = log_error(8, 1 + float(np.abs(np.log(matrix)).max()))
    best = logs.max(axis=1)
    ratios = Ratios(
        (max(float(best[0]) + error, 0.0), max(float(best[1]) + error, 0.0)),
        (float(best[0]) - error, float(best[1]) - error),
    )
    bracket = attractive_leakage(ratios, part, within(against, records))
    if bracket is None:
        return None
    leak, attack = bracket
    names, outputs = mechanism.names(model.states), logs.argmax(axis=1)
    number = {node: record for record, node in enumerate(part.places)}
    seen = tuple(sorted(
        (records[number[node]], names[int(outputs[value])]) for node, value in attack.rewarded
    ))  # fmt: skip
    witness = leak.witness and lifted(leak.witness, records, model.length)
    witness = witness and replace(witness, sets=(), outputs=seen)
    return replace(leak, against=against, witness=witness)


def _informed(mechanism: Scaled, model: BayesianNetwork) -> Leakage:
    """Return how far one record alone moves the answer, if the others can leave it open."""
    tally = tally_of(mechanism.query, model, 1)
    rate = 1 / mechanism.scale
    moved = tally.points[list(tally.offsets)]  # (states, bins): what each state adds
    pairs = permutations(range(model.size), 2)
    worth = {(x, y): float(np.abs(moved[x] - moved[y]).sum()) * rate for x, y in pairs}
    amount, witness = informed_attack(model, worth)
    lower = 0.0 if witness is None else down(amount)
    return _leakage(lower, up(amount) if amount else 0.0, "informed", witness)


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        lower, upper, "exact", against, witness,
        assumptions=(FOLLOWS,), citation="docs, theory: noisy counts",
    )  # fmt: skip


PROVERS: tuple[Prover, ...] = (
    AnswerProver("network", BayesianNetwork, leakage),
    ChannelProver("network, channel", BayesianNetwork, local),
)
