"""`attack`: what was released, attacked by all who know how, and compared with the truth."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.answers import answered, read_answers
from undertow.auditing.attackers import ATTACKERS, Attacker, Guess, Scenario, prior_law
from undertow.auditing.guarantees import average_bound, covers
from undertow.auditing.hidden import known_places, observe, read_outputs
from undertow.auditing.intervals import share_interval
from undertow_papers.lstm import lstm_attacker
from undertow.auditing.matching import as_data, check_match, check_possible
from undertow.auditing.verdicts import Attack, Verdict
from undertow.data.codes import Coded, Rule, coded_whole
from undertow.data.described import check_kind
from undertow.errors import InvalidInput, NotSupported
from undertow.models.base import Model
from undertow.models.chain_classes import ChainBox
from undertow.numerics import Array, check_count, check_listed, check_positive
from undertow.plan import Plan
from undertow.queries import State
from undertow.rounding import above

__all__ = ["attack"]

Places = npt.NDArray[np.int64]

_MOST_RECORDS = 2**62
"""Records that a series can have."""


def attack(
    sanitised: Any,
    plan: "Plan[Any]",
    truth: Any,
    attackers: Iterable[str | Attacker] | None = None,
    known: Iterable[int] = (),
    targets: Iterable[int] | None = None,
    model: Model | None = None,
    confidence: float = 0.95,
) -> Attack:
    """Return how attackers fare against what a plan released, compared with the truth.

    Each guesses the state of every target from what was released, the model and the known
    records; the truth says how often it is right. Attackers on series: "prior", "single-bit",
    "correlation-aware", "viterbi", "informed", "lstm"; on noisy counts and sums: "prior", "bayes",
    "informed". What they find depends on the truth: it is for those who may see it.

    Parameters
    ----------
    sanitised
        What `sanitize` or `redact` returned; or a released answer, or a list with one for each
        series.
    plan
        The plan that was carried out.
    truth
        The true records, in the form of the outputs: a list, an array, a column, or `Data`.
        Missing and foreign ones are in the state that the plan names; if it names none, there must
        be none.
    attackers
        Names of attackers, by default all but "informed"; or functions that take a `Scenario` and
        return a `Guess`.
    known
        Records (0-based, in every series the same) that the attacker knows; their states are
        taken from the truth. "single-bit" does not use them, "informed" knows all but the target.
    targets
        Records to guess; by default those that the plan protects. Known ones are left out.
    model
        The chain that the attacker believes in; by default that of the plan.
    confidence
        The probability that an interval holds.

    >>> from undertow import MarkovChain, Plan, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> from undertow.sanitizing import sanitize
    >>> chain = MarkovChain([[.95, .05], [.05, .95]])
    >>> flips = RandomizedResponse.binary(.25, .25)
    >>> plan = Plan(flips, chain, 1.1, Leakage(1.1, 1.1, "exact", "informed"), "exact")
    >>> truth = chain.simulate(2000, seed=1)
    >>> found = attack(sanitize(plan, truth, insecure_seed=2), plan, truth)
    >>> [(one.attacker, round(one.accuracy, 2), one.exceeds()) for one in found.verdicts[1:]]
    [('single-bit', 0.75, False), ('correlation-aware', 0.9, True), ('viterbi', 0.89, True)]
    """
    chain = _chain(plan, model)
    if plan.delta:
        raise NotSupported(
            "attackers are held against a bound on odds, and a plan with a delta gives none that "
            "always holds; audit(plan) tests what it guarantees"
        )
    share = check_positive(confidence, "confidence")
    if share >= 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, found {share}")
    listed = check_listed(known, "known")
    facts = tuple(sorted({check_count(r, "known record", 0, _MOST_RECORDS) for r in listed}))
    wanted = None
    if targets is not None:
        wanted = tuple(check_count(t, "target", 0) for t in check_listed(targets, "targets"))
    check_kind(plan.model, truth)  # the middle of a region says nothing of its records
    true = coded_whole(truth, _rule(chain, plan.rest), "an attack")
    guesses = (_answers if plan.task == "answer" else _series)(
        sanitised, plan, chain, truth, true, facts, attackers
    )
    return _compared(guesses, true, plan, chain, facts, _wanted(plan, wanted), share)


Guesses = dict[str, Callable[[], Guess]]
"""Every attacker by name, as a function without arguments."""


def _series(
    sanitised: Any, plan: "Plan[Any]", chain: Model, truth: Any, true: Coded,
    known: tuple[int, ...], attackers: Iterable[str | Attacker] | None,
) -> Guesses:  # fmt: skip
    named = _named(attackers, ("prior", "single-bit", "correlation-aware", "viterbi"))
    sanitised = as_data(sanitised, truth)
    read = read_outputs(sanitised, plan.mechanism, chain)
    check_match(read, true, sanitised, truth)
    outputs = observe(read, plan.mechanism, chain)
    check_possible(outputs, true)
    records = known_places(known, true.lengths)
    states = true.codes[records]
    # records count those that are there, places the steps of time: absent ones are hidden, too
    places = records if outputs.present is None else outputs.present[records]
    law = prior_law(chain, read.spans, places, states)  # (steps of time, states)
    observed = outputs.knowing(places, states)
    scenario = Scenario(chain, outputs, observed, outputs.there(law), true.codes)
    return {name: partial(attacker, scenario) for name, attacker in named.items()}


def _answers(
    sanitised: Any, plan: "Plan[Any]", chain: Model, truth: Any, true: Coded,
    known: tuple[int, ...], attackers: Iterable[str | Attacker] | None,
) -> Guesses:  # fmt: skip
    names = ["prior", "bayes"] if attackers is None else list(attackers)
    for name in names:
        if name not in ("prior", "bayes", "informed"):
            raise InvalidInput(
                f"attackers on noisy answers are 'prior', 'bayes' and 'informed', found {name!r}"
            )
    if true.places is not None:
        raise NotSupported("attacks on answers need series without absent steps")
    answers = read_answers(sanitised, plan, len(true.lengths))
    scenario = answered(answers, plan, chain, true, known_places(known, true.lengths))
    return {str(name): partial(scenario.guess, str(name)) for name in names}


def _compared(
    guesses: Guesses, true: Coded, plan: "Plan[Any]", chain: Model, known: tuple[int, ...],
    wanted: tuple[int, ...] | None, confidence: float,
) -> Attack:  # fmt: skip
    lengths, epsilon = true.lengths, plan.leakage.upper
    owner = np.repeat(np.arange(len(lengths)), lengths)  # (records,): the series of each
    record = np.arange(owner.size) - (np.cumsum(lengths) - lengths)[owner]  # (records,): within it
    chosen = _chosen(lengths, record, known, wanted)  # (targets,): their places among all records
    sizes = np.bincount(owner[chosen], minlength=len(lengths)).astype(np.int64)
    verdicts: list[Verdict] = []
    laws: tuple[tuple[float, tuple[float, ...]], ...] = ()
    for name, attacker in guesses.items():
        guess = attacker()
        right = (guess.states == true.codes)[chosen]
        worst = place = None
        if guess.shifts is not None:
            at = int(chosen[np.argmax(guess.shifts[chosen])])
            worst = float(guess.shifts[at])
            place = int(owner[at]), int(record[at])
        law, times = _laws(guess.prior, chosen)
        bound = None
        if plan.leakage.secrets.pairs is None:
            bound = float(np.average(average_bound(law, epsilon), weights=times))
        found = Verdict(
            name, float(right.mean()), share_interval(right, sizes, confidence),
            float(np.average(law.max(axis=1), weights=times)), worst, place, bound,
            covers(plan, attacker=name, known=known, targets=wanted, model=chain), len(chosen),
        )  # fmt: skip
        verdicts.append(found)
        laws = laws or _shares(law, times)
    return Attack(
        tuple(verdicts), epsilon, plan.against, int(lengths.sum()), len(lengths), known,
        confidence, laws,
    )  # fmt: skip


def _laws(prior: Array, chosen: Places) -> tuple[Array, Places]:
    """Return the priors of the chosen records, and how often each stands for one."""
    if prior.strides[0] == 0:  # one law for all
        return prior[:1], np.array([len(chosen)])
    return prior[chosen], np.ones(len(chosen), dtype=np.int64)


def _shares(law: Array, times: Places) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Return the different priors, to nine digits, and the share of targets that has each."""
    # which state has which probability does not matter to the bound: (priors, sorted states)
    ordered = np.sort(law, axis=1).round(9)
    different, place = np.unique(ordered, axis=0, return_inverse=True)
    shares = np.bincount(place.reshape(-1), weights=times) / times.sum()
    return tuple(
        (share, tuple(one)) for share, one in zip(shares.tolist(), different.tolist(), strict=True)
    )


def _chosen(
    lengths: Places, record: Places, known: tuple[int, ...], wanted: tuple[int, ...] | None
) -> Places:
    """Return the places of the targets: in every series, those wanted that are not known."""
    chosen = np.ones(record.size, dtype=np.bool_) if wanted is None else np.isin(record, wanted)
    if wanted is not None and max(wanted, default=0) >= lengths.min():
        raise InvalidInput(
            f"record {max(wanted)} is wanted, but a series has {lengths.min()} records, counted "
            "from 0"
        )
    chosen &= ~np.isin(record, known)
    if not chosen.any():
        raise InvalidInput("no record is left to guess: all targets are known")
    return np.flatnonzero(chosen)


def _wanted(plan: "Plan[Any]", targets: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the records to guess, None for all."""
    if targets is not None:
        if not targets:
            raise InvalidInput("targets is empty: name at least one record, or leave it out")
        return tuple(sorted(set(targets)))
    if plan.task == "redact":
        return tuple(plan.mechanism.protect)
    return plan.leakage.secrets.records


def _named(
    attackers: Iterable[str | Attacker] | None, default: Sequence[str]
) -> dict[str, Attacker]:
    found: dict[str, Attacker] = {}
    for one in default if attackers is None else attackers:
        if callable(one):
            found[getattr(one, "__name__", type(one).__name__)] = one
        elif one in ATTACKERS:
            found[one] = ATTACKERS[one]
        elif one == "lstm":
            found[one] = lstm_attacker()
        else:
            known = ", ".join(map(repr, (*ATTACKERS, "lstm")))
            raise InvalidInput(f"attackers on series are {known}, found {one!r}")
    if not found:
        raise InvalidInput("name at least one attacker, or leave attackers out")
    return found


def _rule(chain: Model, rest: State | None) -> Rule:
    """Return how true records become states: missing ones as they were randomised."""
    return Rule(chain.states, foreign=None if rest is None else chain.states.index(rest))


def _chain(plan: Any, model: Any) -> Model:
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    if model is not None and not (isinstance(model, Model) and model.hidden_law() is not None):
        raise InvalidInput(f"the attacker's model must be a MarkovChain, or one of order two or "
                           f"hidden, found a {type(model).__name__}")  # fmt: skip
    chain: Model = plan.model if model is None else model
    if isinstance(chain, ChainBox):
        chain = chain.middle()  # what an attacker who knows no more than the box believes in
    if chain.hidden_law() is None:
        raise NotSupported(
            f"the plan is for {plan.model.describe()} and names no single chain to attack with; "
            f"say which one the attacker believes in: model=MarkovChain(...) (guaranteed: "
            f"{above(plan.leakage.upper)})"
        )
    if plan.states and chain.states != plan.states:
        raise InvalidInput("the attacker's model must have the states of the plan, in their order")
    return chain
