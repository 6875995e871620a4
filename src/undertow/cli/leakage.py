"""``undertow leakage``: what an algorithm or a noisy answer reveals about one record."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from undertow.cli.files import check_figure, write_figure
from undertow.cli.options import (
    AcceptOption,
    AmountOptions,
    AttackerOptions,
    DeltaOption,
    EffortOption,
    ForceOption,
    GuaranteeOptions,
    JsonOption,
    ModelOptions,
    QueryOptions,
    SecretOptions,
    command,
    misuse,
    option,
    read_accept,
    read_effort,
    read_flips,
)
from undertow.cli.output import (
    INTERRUPTED,
    above,
    answer,
    below,
    interval,
    meaning,
    say,
    show,
    stated,
    ticking,
    waiting,
)
from undertow.cli.verify import check_place, write_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from undertow.adversaries import Against
    from undertow.certificate import Leakage
    from undertow.diagnostics.windows import Period, Renewal
    from undertow.figures.canvas import Figure
    from undertow.mechanisms import Mechanism
    from undertow.models.sets import AnyModel
    from undertow.planning.budget import Budget
    from undertow.secrets import Secret

__all__ = ["leakage"]


_FASTER = "--effort 0.1 is faster, and leaves a wider interval that is certified too"


@command
def leakage(
    model: ModelOptions,
    query: QueryOptions,
    attacker: AttackerOptions,
    guarantee: GuaranteeOptions,
    amount: AmountOptions,
    secret: SecretOptions,
    flips: str | None = option(
        "RHO[,RHO]", "Flip probability of every record of the series, or one for each of two "
        "states.", group="Question",
    ),
    limit: float | None = option(
        "L", "Leakage limit: compute the budget that keeps it.", group="Question"
    ),
    delta: DeltaOption = None,
    effort: EffortOption = None,
    accept: AcceptOption = None,
    renew: Literal["day", "week", "month"] | None = option(
        "PERIOD", "Period (day, week, month) after which --epsilon is spent afresh; records last "
        "--every (default: a period).", group="Expert",
    ),
    figure: Path | None = option(
        "FILE",
        "Path of a figure (.png, .svg): leakage against delta, with --limit the budget against "
        "protected records, with --renew against persistence.",
        group="Output",
    ),
    certificate: Path | None = option(
        "FILE", "Path of a certificate that others can check.", group="Output"
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Bound the leakage of an algorithm or of a noisy answer by a certified interval.

    Give a guarantee (--epsilon, with --guarantee-delta, or --rho, or --mu), a noisy answer (--count
    and the like with --scale or --sigma), or a series of flipped records (--flips). With --limit
    alone the result is the budget: the DP level that leaks at most so much. Interrupted (Ctrl-C),
    it prints the interval reached, with exit code 130.

    \b
    Examples:
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1
      undertow leakage --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --scale 4 --against ignorant
      undertow leakage --model chain.json --epsilon 1 --neighbours add-remove
      undertow leakage --model chain.json --epsilon 1 --target 50 --known 40,60 --json
      undertow leakage --model chain.json --flips 0.3,0.4 --progress
      undertow leakage --model family.ped --frequency 0.05,0.5 --count BB --scale 2
      undertow leakage --model chain.json --length 4 --mu 0.06 --delta 1e-6 --figure curve.png
      undertow leakage --model chain.json --length 4 --sum 0,1 --sigma 17 --delta 1e-6
      undertow leakage --model chain.json --limit 1 --delta 1e-6
      undertow leakage --model chain.json --limit 1 --secret 1h --every 5m
      undertow leakage --model chain.json --length 288 --limit 1 --figure budgets.png
      undertow leakage --transition '0.9,0.1;0.1,0.9' --epsilon 2 --renew day
      undertow leakage --model chain.json --epsilon 1 --certificate certificate.json
    """
    if certificate is not None:
        for name, given in (
            ("--limit", limit), ("--renew", renew), ("--delta", delta), ("--figure", figure),
            ("--secret", secret.secret),
        ):  # fmt: skip
            if given is not None:
                raise misuse(f"--certificate is for one record and delta 0: leave {name} out")
    if renew is not None:
        guarantee.check()
        others = query.total or flips or delta or effort or amount.flag
        if guarantee.flag != "--epsilon" or guarantee.guarantee_delta is not None or others:
            raise misuse("--renew needs --epsilon, and allows --limit, and no other question")
        if guarantee.unit is not None or guarantee.neighbours is not None:
            raise misuse("--renew takes a level for one record replaced: no --unit, --neighbours")
        check_figure(figure, force=force)
        from undertow.plan import adversary_to_dict

        level, described = guarantee.epsilon or 0.0, model.read()
        renewed = _renewed(renew, level, described, attacker.read(), secret, limit)
        if figure is not None:
            with waiting("drawing"):
                drawn = _draw_renewal(renewed)
            write_figure(figure, drawn, force=force)
        answer(
            renewed.to_dict() | {"against": adversary_to_dict(renewed.leak.against)}
            | ({} if figure is None else {"figure": str(figure)}),
            lambda: _show_renewal(renewed, described, figure),
            as_json=as_json,
        )  # fmt: skip
        return
    accepted = read_accept(accept)
    if accepted and limit is None:
        raise misuse("--accept goes with --limit")
    question = _question(guarantee, query, amount, flips, limit)
    if figure is not None and limit is None and (flips is not None or delta is None):
        raise misuse("--figure draws a leakage against delta: it needs --delta, and no --flips")
    if figure is not None and limit is not None and delta is not None:
        raise misuse("--figure with --limit draws DP levels: leave --delta out")
    if figure is not None or certificate is None:
        check_figure(figure, force=force)
    check_place(certificate, force=force)
    work = read_effort(effort) or 1.0
    against, described = attacker.read(), model.read()
    hidden = secret.read(described)
    if question is None:
        request = _BudgetRequest(
            described, limit or 0.0, against, delta or 0.0, hidden, work, accepted
        )
        _budget(request, figure, force=force, as_json=as_json)
        return
    mechanism = question(described)
    from undertow.bounds.engine import leakage as compute
    from undertow.certificate import Leakage
    from undertow.plan import leakage_to_dict
    from undertow.secrets import ONE_RECORD

    try:
        with waiting("computing the leakage", _FASTER) as shown:
            leak = compute(
                mechanism, described, against, delta=delta or 0.0, effort=work, secret=hidden
            )
    except KeyboardInterrupt:
        ends = shown.reached()
        if ends is None:
            raise
        leak = Leakage(
            *ends, "interrupted", against, secret=hidden or ONE_RECORD, delta=delta or 0.0
        )
        say("interrupted: the interval attained and proved so far; a full search narrows it")
        fields = leakage_to_dict(leak) | {
            "any_length": described.length is None, "interrupted": True,
        }  # fmt: skip
        title = f"Leakage about {_about(leak.secret)}, at the interrupt"
        rows = _rows(mechanism, described, leak, [])
        answer(fields, lambda: show(title, rows), as_json=as_json)
        raise typer.Exit(INTERRUPTED) from None
    files: dict[str, str] = {}
    written: list[tuple[str, str]] = []
    if figure is not None:
        from undertow.figures.curves import delta_curves, draw_deltas
        from undertow.reporting.words import sentence

        curves = delta_curves(mechanism, described, leak)
        drawn = draw_deltas(curves, sentence(_words(mechanism)))
        write_figure(figure, drawn, force=force)
        files["figure"] = str(figure)
        written.append(("figure", str(figure)))
    if certificate is not None:
        proved = write_certificate(certificate, (mechanism, described, against), force=force)
        files["certificate"] = str(certificate)
        written.append(("certificate", proved))
    rows = [
        *_rows(mechanism, described, leak, guarantee.rows()),
        *_proof(described, leak),
        *written,
    ]
    answer(
        leakage_to_dict(leak)
        | {"any_length": described.length is None, "conditions": list(_untested(described))}
        | guarantee.fields()
        | files,
        lambda: show(f"Leakage about {_about(leak.secret)}", rows),
        as_json=as_json,
    )


def _question(
    guarantee: GuaranteeOptions, query: QueryOptions, amount: AmountOptions, flips: str | None,
    limit: float | None,
) -> "Callable[[AnyModel], Mechanism] | None":  # fmt: skip
    """Return the function that builds the mechanism on a model, None for a budget."""
    guarantee.check()
    named = (("--limit", limit), ("--flips", flips), (guarantee.flag, guarantee.flag))
    others = [str(name) for name, value in named if value is not None]
    if len(others) + query.total != 1:
        raise misuse(
            "give one question: --epsilon (or --rho, --mu), --count, --histogram, --top, "
            "--transitions, --sum, --mean, --flips or --limit"
        )
    if amount.flag is not None and others:
        raise misuse(f"{amount.flag} goes with a noisy answer, not with {others[0]}")
    if limit is not None:
        return None
    if flips is not None:
        return lambda model: read_flips(flips, model)
    if others:
        mechanism = guarantee.read()
        return lambda _: mechanism
    amount.check()
    return lambda model: amount.read(query.read(model))


def _words(mechanism: "Mechanism") -> str:
    """Return the mechanism in words."""
    from undertow.guarantees import GDP, ZCDP, ApproximateDP, PureDP
    from undertow.mechanisms import RandomizedResponse

    unit = getattr(mechanism, "unit", "record")
    moved = f"one {unit} replaced"
    if getattr(mechanism, "neighbours", "replace") != "replace":
        moved = f"one {unit} added or removed, so twice for one replaced"
    match mechanism:
        case RandomizedResponse():
            rates = dict.fromkeys(f"{1 - kept:g}" for kept in mechanism.matrix.diagonal())
            return f"the whole series, each record flipped with probability {' or '.join(rates)}"
        case PureDP():
            return f"any {mechanism.epsilon:g}-DP algorithm, {moved}"
        case ApproximateDP():
            return f"any ({mechanism.epsilon:g}, {stated(mechanism.delta)})-DP algorithm, {moved}"
        case ZCDP():
            return f"any {mechanism.rho:g}-zCDP algorithm, {moved}"
        case GDP():
            return f"any {mechanism.mu:g}-GDP algorithm, {moved}"
    noise: Any = mechanism
    if noise.query.selects:
        return f"{noise.query.words()}, by {noise.describe()}"
    return f"{noise.query.words()}, {noise.words} noise of {noise.measure} {noise.amount:g}"


def _rows(
    mechanism: "Mechanism", model: "AnyModel", leak: "Leakage", neighbours: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return what was asked, and the interval, as labelled rows."""
    from undertow.adversaries import words

    return [
        ("question", _words(mechanism)),
        *neighbours,
        ("model", model.describe()),
        ("leakage", interval(leak)),
        ("meaning", _meaning(leak, model)),
        ("attacker", words(leak.against, leak.secret.window)),
    ]


def _proof(model: "AnyModel", leak: "Leakage") -> list[tuple[str, str]]:
    """Return the method, the attack and the assumptions as labelled rows."""
    return [
        ("method", leak.method),
        ("witness", "none" if leak.witness is None else leak.witness.words(model.length is None)),
        ("assumes", "; ".join(dict.fromkeys([*_untested(model), *leak.assumptions])) or "nothing"),
        *([("proved by", leak.citation)] if leak.citation else []),
    ]


def _about(secret: "Secret") -> str:
    """Return the records of a secret in words."""
    from undertow.secrets import Window

    return "one person" if secret.person else Window(secret.window).length_words()


def _untested(model: "AnyModel") -> tuple[str, ...]:
    """Return the assumptions on how the model came from records."""
    from undertow.models.base import stands_for
    from undertow.plan import doubts

    return doubts(stands_for(model).checks)


def _meaning(leak: "Leakage", model: "AnyModel") -> str:
    """Return what a leakage lets the adversary do, after the failed checks of the model."""
    from undertow.models.base import stands_for
    from undertow.models.fitting.checks import failed

    sentence = meaning(leak)
    if leak.against == "informed" or not failed(stands_for(model).checks):
        return sentence
    return f"{_untested(model)[0]}; if it is true, {sentence}"


@dataclass(frozen=True, slots=True)
class _BudgetRequest:
    """The inverse question: the budget that leaks at most ``limit``."""

    model: "AnyModel"
    limit: float
    against: "Against"
    delta: float
    secret: "Secret | None"
    effort: float
    accept: list[str]


def _budget(request: _BudgetRequest, figure: Path | None, *, force: bool, as_json: bool) -> None:
    """Answer the inverse question: the guarantee to ask of a DP library."""
    from undertow.certificate import READS_STATES
    from undertow.plan import adversary_to_dict
    from undertow.planning.budget import Budget, dp_budget

    limit = request.limit
    with waiting("searching for the budget", _FASTER):
        budget: Any = dp_budget(
            request.model, limit, request.against, delta=request.delta, secret=request.secret,
            effort=request.effort, accept=request.accept,
        )  # fmt: skip
    if figure is not None:
        write_figure(figure, _draw_windows(request), force=force)
    fields: dict[str, Any] = {"limit": limit, "against": adversary_to_dict(request.against)}
    fields |= {"at_delta": request.delta} if request.delta else {}
    if request.secret is not None:
        fields["secret"] = request.secret.to_dict()
    fields |= {"assumptions": [READS_STATES]} if request.model.states else {}
    fields |= {} if figure is None else {"figure": str(figure)}
    conditions = _conditions(request, budget)
    fields["conditions"] = list(conditions)
    fields |= budget.to_dict() if isinstance(budget, Budget) else {"epsilon": budget}
    answer(fields, lambda: _show_budget(request, budget, conditions, figure), as_json=as_json)


def _records(secret: "Secret | None") -> int:
    """Return the number of records in a row of a secret."""
    return 1 if secret is None else secret.window


def _conditions(request: _BudgetRequest, budget: "float | Budget") -> tuple[str, ...]:
    """Return what weakens a budget: the cost of failed checks, and what was not tested."""
    from undertow.models.base import stands_for
    from undertow.plan import Suggested, checked
    from undertow.planning.acceptance import priced_level

    level = budget if isinstance(budget, float) else budget.epsilon
    checks = stands_for(request.model).checks
    if math.isfinite(level):
        checks = priced_level(checks, level, request.against, _records(request.secret))
    beyond = Suggested.by(checks, request.limit).beyond(request.limit)
    return (*beyond, *checked(checks, request.accept))


def _draw_windows(request: _BudgetRequest) -> "Figure":
    """Return the figure: the DP level against the number of records protected."""
    from undertow.diagnostics.windows import budget_by_window, window_sizes
    from undertow.figures.costs import draw_windows

    sizes = window_sizes(request.model, _records(request.secret))
    with ticking("drawing", len(sizes)) as tick:
        table = budget_by_window(request.model, request.limit, request.against, sizes, tick=tick)
    return draw_windows(table, f"Budget for a leakage of at most {request.limit:g}")


_FOR_EACH = "for each unit by which one record moves the answer (in the Euclidean norm)"


def _show_budget(
    request: _BudgetRequest, budget: "float | Budget", conditions: tuple[str, ...],
    figure: Path | None,
) -> None:  # fmt: skip
    from undertow.adversaries import words
    from undertow.certificate import READS_STATES

    level = budget if isinstance(budget, float) else budget.epsilon
    at = f" at delta {stated(request.delta)}" if request.delta else ""
    window = _records(request.secret)
    secret = "no record leaks" if window == 1 else f"no {window} records in a row leak"
    rows = [
        (
            "question",
            f"what to ask of a DP library so that {secret} more than {request.limit:g}{at}",
        ),
        ("model", request.model.describe()),
        ("attacker", words(request.against, window)),
        ("holds", "; ".join([f"a leakage of at most {request.limit:g}", *conditions])),
    ]
    if math.isinf(level):
        rows.append(("spend", "whatever you like: nothing can leak"))
    elif isinstance(budget, float):
        rows.append(("ask for", f"a DP level of {below(level)}, one record replaced"))
    else:
        pair = f"({below(budget.epsilon)}, {below(budget.delta)})-DP, one record replaced"
        rows += [
            ("ask for", pair),
            ("or for", f"zCDP with rho {below(budget.rho)}"),
            ("or for", f"GDP with mu {below(budget.mu)}"),
            ("or add", f"Gaussian noise of sigma {above(budget.sigma)} {_FOR_EACH}"),
        ]
    if request.model.states:
        rows.append(("assumes", READS_STATES))
    if figure is not None:
        rows.append(("figure", str(figure)))
    show("Budget", rows)


_DAYS: dict[str, int] = {"day": 1, "week": 7, "month": 31}
"""The most days of each period."""


def _renewed(
    period: "Period", epsilon: float, model: "AnyModel", against: "Against", secret: SecretOptions,
    limit: float | None,
) -> "Renewal":  # fmt: skip
    """Return the leakage of a level that is spent afresh in every period."""
    from undertow.diagnostics.windows import renewal
    from undertow.secrets import Window

    records = 1
    if secret.every is not None:
        from undertow.data.grid import step_of

        step, whole = (step_of(text, clock=True) for text in (secret.every, f"{_DAYS[period]}d"))
        if step > whole:
            raise misuse(f"--every {secret.every} is longer than a {period}, which renews")
        records = -(-whole // step)
    window = secret.read(model, timed=True)
    if window is not None and not isinstance(window, Window):
        raise misuse("--renew takes a --secret of records in a row, or of a duration")
    with waiting("computing the leakage"):
        return renewal(
            model, epsilon, period, records=records, against=against,
            limit=1.0 if limit is None else limit, secret=window,
        )  # fmt: skip


def _show_renewal(renewed: "Renewal", model: "AnyModel", figure: Path | None) -> None:
    from undertow.adversaries import words

    each = f"every {renewed.period}"
    size = "" if renewed.records == 1 else f", which has {renewed.records}"
    often = f"the {renewed.year} records of a year"
    what = renewed.window.length_words()
    aim = f"for at most {renewed.limit:g} about {what}"
    spend = f"a level of {below(renewed.budget)} {each}, {aim}"
    if not renewed.budget:
        spend = f"nothing, {aim}: one record determines endlessly many others"
    elif math.isinf(renewed.budget):
        spend = "whatever you like: nothing can leak"
    question = f"a level of {renewed.epsilon:g} spent afresh {each}, on the records of that"
    lasting = f"a level of {below(renewed.trait_budget)} {each}, for at most {renewed.limit:g}"
    rows = [
        ("question", f"{question} {renewed.period}{size}"),
        ("model", (model.endless() or model).describe()),
        ("attacker", words(renewed.leak.against)),
        ("leakage", f"{interval(renewed.leak)} about {what}, over any number of {renewed.period}s"),
        ("a trait", f"that never changes: {above(renewed.trait)} by {often}"),
        ("spend", spend),
        ("or spend", f"{lasting} in a year about a trait"),
        ("assumes", "; ".join(renewed.assumptions)),
    ]
    if figure is not None:
        rows.append(("figure", str(figure)))
    show("Leakage of a renewing budget", rows)


def _draw_renewal(renewed: "Renewal") -> "Figure":
    """Return the figure: this level beside the usual ones, against persistence."""
    from undertow.diagnostics.windows import LEVELS, by_persistence
    from undertow.figures.costs import draw_renewals

    levels = sorted({*LEVELS, renewed.epsilon})[-4:]
    table = by_persistence(levels, limit=renewed.limit)
    title = f"A fresh epsilon every {renewed.period}, for a bit that persists"
    return draw_renewals(table, title, renewed.period)
