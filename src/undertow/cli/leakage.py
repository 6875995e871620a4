"""``undertow leakage``: what an algorithm or a noisy answer reveals about one record."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from undertow.cli.files import check_figure, write_bytes
from undertow.cli.options import (
    AcceptOption,
    AgainstText,
    AmountText,
    DeltaOption,
    EffortOption,
    ForceOption,
    GuaranteeText,
    JsonOption,
    ModelText,
    QueryText,
    WindowText,
    command,
    figure_kind,
    misuse,
    option,
    read_accept,
    read_effort,
    read_flips,
)
from undertow.cli.output import (
    INTERRUPTED,
    above,
    adversary_fields,
    answer,
    below,
    interval,
    leakage_fields,
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
    from undertow.mechanisms import Mechanism
    from undertow.models.sets import AnyModel
    from undertow.planning.budget import Budget
    from undertow.secrets import Window

__all__ = [
    "RenewalText",
    "leakage",
    "tell_renewal",
]


_FASTER = "--effort 0.1 is faster, and leaves a wider interval that is certified too"


@command
def leakage(
    model: ModelText,
    query: QueryText,
    who: AgainstText,
    known: GuaranteeText,
    amount: AmountText,
    whole: WindowText,
    flips: str | None = option(
        "RHO[,RHO]",
        "The series, each record flipped with this probability, or one for each of two states.",
    ),
    limit: float | None = option("L", "What may be spent so that at most this much leaks?"),
    delta: DeltaOption = None,
    effort: EffortOption = None,
    accept: AcceptOption = None,
    renew: Literal["day", "week", "month"] | None = option(
        None,
        "--epsilon is spent afresh every day, week or month, on its own records, of which each "
        "lasts --every (default: records are the periods).",
    ),
    figure: Path | None = option(
        "FILE",
        "Draw the leakage against delta, with --limit the budget against the number of records "
        "that are protected, with --renew both against persistence (.png or .svg).",
    ),
    certificate: Path | None = option("FILE", "Write a certificate that others can check."),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """What an algorithm reveals about one record, or several in a row, as a certified interval.

    Ask about every algorithm with a guarantee at once (--epsilon, with --guarantee-delta, or --rho,
    or --mu), about one noisy answer (--count, --histogram, --transitions, --sum or --mean, with
    --scale or --sigma), or about a series of flipped records (--flips). Guarantees that are not
    pure, and Gaussian noise, need --delta. With --limit the question is turned round: what to ask
    of a DP library so that no record leaks more. Interrupted (Ctrl-C), it prints what is attained
    and proved by then, with exit code 130.

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
      undertow leakage --model chain.json --limit 1 --protect-window 1h --every 5m
      undertow leakage --model chain.json --length 288 --limit 1 --figure budgets.png
      undertow leakage --transition '0.9,0.1;0.1,0.9' --epsilon 2 --renew day
      undertow leakage --model chain.json --epsilon 1 --certificate certificate.json
    """
    if certificate is not None:
        others = (("--limit", limit), ("--renew", renew), ("--delta", delta), ("--figure", figure))
        for name, given in others:
            if given is not None:
                raise misuse(f"--certificate is about one record and no delta: without {name}")
        if whole.read() is not None:
            raise misuse("--certificate is about one record: without --protect-window")
    if renew is not None:
        renewed = RenewalText(renew, whole, limit, figure)
        renewed.check(known, others=query.asked or flips or delta or effort or amount.asked)
        check_figure(figure, force=force)
        tell_renewal(renewed, model.read(), known, who.read(), force=force, as_json=as_json)
        return
    taken = read_accept(accept)
    if taken and limit is None:
        raise misuse("--accept goes with --limit: a leakage says what its model failed")
    question = _question(known, query, amount, flips, limit)
    if figure is not None and limit is None and (flips is not None or delta is None):
        raise misuse("--figure draws a leakage against delta: it needs --delta, and no --flips")
    if figure is not None and limit is not None and delta is not None:
        raise misuse("--figure with --limit draws DP levels: leave --delta out")
    if figure is not None or certificate is None:
        check_figure(figure, force=force)
    check_place(certificate, force=force)
    allowed = read_effort(effort) or 1.0
    against, described, window = who.read(), model.read(), whole.read()
    if question is None:
        from undertow.secrets import ONE_RECORD

        asked = _Asked(
            described, limit or 0.0, against, delta or 0.0, window or ONE_RECORD, allowed, taken
        )
        _budget(asked, figure, force=force, as_json=as_json)
        return
    mechanism = question(described)
    from undertow.bounds.engine import leakage as compute

    try:
        with waiting("computing the leakage", _FASTER) as shown:
            leak = compute(
                mechanism, described, against, delta=delta or 0.0,
                effort=allowed, secret=window,
            )  # fmt: skip
    except KeyboardInterrupt:
        ends = shown.reached()
        if ends is None:
            raise
        _tell_reached(mechanism, described, _reached(ends, against, window, delta), as_json)
        raise typer.Exit(INTERRUPTED) from None
    if figure is not None:
        write_bytes(figure, _draw(mechanism, described, leak, figure), force=force)
    drawn = {} if figure is None else {"figure": str(figure)}
    more = [] if figure is None else [("figure", str(figure))]
    if certificate is not None:
        asked_of = (mechanism, described, against)
        more.append(("certificate", write_certificate(certificate, asked_of, force=force)))
        drawn |= {"certificate": str(certificate)}
    answer(
        leakage_fields(leak)
        | {"any_length": described.length is None, "conditions": list(_untested(described))}
        | known.fields()
        | drawn,
        lambda: _tell(mechanism, described, leak, known.rows(), more),
        as_json=as_json,
    )


def _question(
    known: GuaranteeText, query: QueryText, amount: AmountText, flips: str | None,
    limit: float | None,
) -> "Callable[[AnyModel], Mechanism] | None":  # fmt: skip
    """Return how to build the mechanism asked about, once the model's states are known.

    None where a budget is asked for, and no mechanism.
    """
    known.check()
    named = (("--limit", limit), ("--flips", flips), (known.asked, known.asked))
    others = [str(name) for name, value in named if value is not None]
    if len(others) + query.asked != 1:
        raise misuse(
            "ask one question: --epsilon (or --rho, --mu), --count, --histogram, --top, "
            "--transitions, --sum, --mean, --flips or --limit"
        )
    if amount.asked is not None and others:
        raise misuse(f"{amount.asked} goes with a noisy answer, not with {others[0]}")
    if limit is not None:
        return None
    if flips is not None:
        return lambda model: read_flips(flips, model)
    if others:
        guarantee = known.read()
        return lambda _: guarantee
    amount.check()
    return lambda model: amount.read(query.read(model))


def _words(mechanism: "Mechanism") -> str:
    """Return what is asked about."""
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
        return f"{noise.query.words()}, by {noise.said()}"
    return f"{noise.query.words()}, {noise.words} noise of {noise.measure} {noise.amount:g}"


def _tell(
    mechanism: "Mechanism", model: "AnyModel", leak: "Leakage", said: list[tuple[str, str]],
    more: list[tuple[str, str]],
) -> None:  # fmt: skip
    from undertow.adversaries import words
    from undertow.secrets import Window

    rows = [
        ("question", _words(mechanism)),
        *said,
        ("model", model.describe()),
        ("leakage", interval(leak)),
        ("meaning", _meaning(leak, model)),
        ("attacker", words(leak.against, leak.secret.window)),
        ("method", leak.method),
        ("witness", "none" if leak.witness is None else leak.witness.words(model.length is None)),
        ("assumes", "; ".join(dict.fromkeys([*_untested(model), *leak.assumptions])) or "nothing"),
    ]
    if leak.citation:
        rows.append(("proved by", leak.citation))
    rows += more
    show(f"What it reveals about {Window(leak.secret.window).length_words()}", rows)


def _untested(model: "AnyModel") -> tuple[str, ...]:
    """Return what is known of the way from records to the model, as assumptions."""
    from undertow.models.standing import stands_for
    from undertow.plan import doubts

    return doubts(stands_for(model).checks)


def _meaning(leak: "Leakage", model: "AnyModel") -> str:
    """Return what a leakage lets the adversary do, after what failed of the model's checks."""
    from undertow.models.fitting.checks import failed
    from undertow.models.standing import stands_for

    told = meaning(leak)
    if leak.against == "informed" or not failed(stands_for(model).checks):
        return told
    return f"{_untested(model)[0]}; if it is true, {told}"


def _reached(
    ends: tuple[float, float], against: "Against", window: "Window | None", delta: float | None
) -> "Leakage":
    """Return what was attained and proved before the search was interrupted."""
    from undertow.certificate import Leakage
    from undertow.secrets import ONE_RECORD

    secret = window or ONE_RECORD
    return Leakage(*ends, "interrupted", against, secret=secret, delta=delta or 0.0)


def _tell_reached(
    mechanism: "Mechanism", model: "AnyModel", leak: "Leakage", as_json: bool
) -> None:
    """Print the interval that an interrupted search leaves: it holds, and more time narrows it."""
    from undertow.adversaries import words
    from undertow.secrets import Window

    say("interrupted: this is what was attained and proved so far; to the end it takes longer")
    about = Window(leak.secret.window).length_words()
    rows = [
        ("question", _words(mechanism)),
        ("model", model.describe()),
        ("leakage", interval(leak)),
        ("meaning", _meaning(leak, model)),
        ("attacker", words(leak.against, leak.secret.window)),
    ]
    fields = leakage_fields(leak) | {"any_length": model.length is None, "interrupted": True}
    title = f"What it reveals about {about}, as far as the search came"
    answer(fields, lambda: show(title, rows), as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The inverse question: what may be spent so that at most ``limit`` leaks."""

    model: "AnyModel"
    limit: float
    against: "Against"
    delta: float
    window: "Window"
    effort: float
    accept: list[str]


def _budget(asked: _Asked, figure: Path | None, *, force: bool, as_json: bool) -> None:
    """Answer the inverse question: what to ask of a DP library."""
    from undertow.certificate import READS_STATES
    from undertow.planning.budget import Budget, dp_budget

    limit, window = asked.limit, asked.window
    with waiting("searching for the budget", _FASTER):
        found: Any = dp_budget(
            asked.model, limit, asked.against, delta=asked.delta, secret=window,
            effort=asked.effort, accept=asked.accept,
        )  # fmt: skip
    if figure is not None:
        write_bytes(figure, _draw_windows(asked, figure), force=force)
    spent = found.to_dict() if isinstance(found, Budget) else {"epsilon": found}
    told: dict[str, Any] = {"limit": limit, "against": adversary_fields(asked.against)}
    told |= {"at_delta": asked.delta} if asked.delta else {}
    told |= {"protect_window": window.records} if window.records > 1 else {}
    told |= {"assumptions": [READS_STATES]} if asked.model.states else {}
    told |= {} if figure is None else {"figure": str(figure)}
    conditions = _conditions(asked, found)
    told["conditions"] = list(conditions)
    answer(told | spent, lambda: _tell_budget(asked, found, conditions, figure), as_json=as_json)


def _conditions(asked: _Asked, found: "float | Budget") -> tuple[str, ...]:
    """Return what weakens a budget: what failed checks of the model cost, what was not tested."""
    from undertow.models.standing import stands_for
    from undertow.plan import Suggested, checked
    from undertow.planning.acceptance import priced_level

    level = found if isinstance(found, float) else found.epsilon
    checks = stands_for(asked.model).checks
    if math.isfinite(level):
        checks = priced_level(checks, level, asked.against, asked.window.records)
    beyond = Suggested.by(checks, asked.limit).beyond(asked.limit)
    return (*beyond, *checked(checks, asked.accept))


def _draw_windows(asked: _Asked, path: Path) -> bytes:
    """Return the file of the figure: the DP level against the number of records protected."""
    from undertow.diagnostics.windows import budget_by_window, window_sizes
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.costs import draw_windows

    sizes = window_sizes(asked.model, asked.window.records)
    with ticking("drawing", len(sizes)) as tick:
        table = budget_by_window(asked.model, asked.limit, asked.against, sizes, tick=tick)
    title = f"What may be spent so that at most {asked.limit:g} leaks"
    return figure_bytes(draw_windows(table, title), figure_kind(path))


_FOR_EACH = "for each unit by which one record moves the answer (in the Euclidean norm)"


def _tell_budget(
    asked: _Asked, found: "float | Budget", conditions: tuple[str, ...], figure: Path | None
) -> None:
    from undertow.adversaries import words
    from undertow.certificate import READS_STATES

    level = found if isinstance(found, float) else found.epsilon
    at = f" at delta {stated(asked.delta)}" if asked.delta else ""
    window = asked.window.records
    secret = "no record leaks" if window == 1 else f"no {window} records in a row leak"
    rows = [
        (
            "question",
            f"what to ask of a DP library so that {secret} more than {asked.limit:g}{at}",
        ),
        ("model", asked.model.describe()),
        ("attacker", words(asked.against, window)),
        ("holds", "; ".join([f"a leakage of at most {asked.limit:g}", *conditions])),
    ]
    if math.isinf(level):
        rows.append(("spend", "whatever you like: nothing can leak"))
    elif isinstance(found, float):
        rows.append(("ask for", f"a DP level of {below(level)}, one record replaced"))
    else:
        pair = f"({below(found.epsilon)}, {below(found.delta)})-DP, one record replaced"
        rows += [
            ("ask for", pair),
            ("or for", f"zCDP with rho {below(found.rho)}"),
            ("or for", f"GDP with mu {below(found.mu)}"),
            ("or add", f"Gaussian noise of sigma {above(found.sigma)} {_FOR_EACH}"),
        ]
    if asked.model.states:
        rows.append(("assumes", READS_STATES))
    if figure is not None:
        rows.append(("figure", str(figure)))
    show("What may be spent", rows)


def _draw(mechanism: "Mechanism", model: "AnyModel", leak: "Leakage", path: Path) -> bytes:
    """Return the file of the figure: the leakage against delta, beside the guarantee itself."""
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.curves import delta_curves, draw_deltas

    words = _words(mechanism)
    drawn = draw_deltas(delta_curves(mechanism, model, leak), words[:1].upper() + words[1:])
    return figure_bytes(drawn, figure_kind(path))


_DAYS: dict[str, int] = {"day": 1, "week": 7, "month": 31}
"""The most days of each period."""


@dataclass(frozen=True, slots=True)
class RenewalText:
    """How a level renews, as it was typed."""

    period: "Period"
    whole: WindowText
    limit: float | None
    figure: Path | None

    def check(self, known: GuaranteeText, *, others: Any) -> None:
        """Refuse what does not go with a level that renews."""
        known.check()
        if known.asked != "--epsilon" or known.guarantee_delta is not None or others:
            raise misuse("--renew asks about one pure level: --epsilon, and --limit if you like")
        if known.unit is not None or known.neighbours is not None:
            raise misuse("--renew takes a level for one record replaced: no --unit, --neighbours")

    def records(self) -> int:
        """Return how many records a period has."""
        every = self.whole.every
        if every is None:
            return 1
        from undertow.data.grid import step_of

        step, whole = (step_of(text, clock=True) for text in (every, f"{self._days}d"))
        if step > whole:
            raise misuse(f"--every {every} is longer than a {self.period}, which renews")
        return -(-whole // step)

    @property
    def _days(self) -> int:
        return _DAYS[self.period]


def tell_renewal(
    asked: RenewalText, model: "AnyModel", known: GuaranteeText, against: "Against", *,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Answer what a level leaks that renews."""
    from undertow.diagnostics.windows import renewal

    records, window = asked.records(), asked.whole.read(timed=True)
    with waiting("computing the leakage"):
        found = renewal(
            model, known.epsilon or 0.0, asked.period, records=records, against=against,
            limit=1.0 if asked.limit is None else asked.limit, secret=window,
        )  # fmt: skip
    if asked.figure is not None:
        with waiting("drawing"):
            write_bytes(asked.figure, _renewal_draw(found, asked.figure), force=force)
    drawn = {} if asked.figure is None else {"figure": str(asked.figure)}
    answer(
        found.to_dict() | {"against": adversary_fields(against)} | drawn,
        lambda: _renewal_tell(found, model, against, asked.figure),
        as_json=as_json,
    )


def _renewal_tell(
    found: "Renewal", model: "AnyModel", against: "Against", figure: Path | None
) -> None:
    from undertow.adversaries import words

    each = f"every {found.period}"
    size = "" if found.records == 1 else f", which has {found.records}"
    often = f"the {found.year} records of a year"
    what = found.window.length_words()
    aim = f"for at most {found.limit:g} about {what}"
    spend = f"a level of {below(found.budget)} {each}, {aim}"
    if not found.budget:
        spend = f"nothing, {aim}: one record determines endlessly many others"
    elif math.isinf(found.budget):
        spend = "whatever you like: nothing can leak"
    question = f"a level of {found.epsilon:g} spent afresh {each}, on the records of that"
    lasting = f"a level of {below(found.trait_budget)} {each}, for at most {found.limit:g}"
    rows = [
        ("question", f"{question} {found.period}{size}"),
        ("model", (model.endless() or model).describe()),
        ("attacker", words(against)),
        ("leakage", f"{interval(found.leak)} about {what}, over any number of {found.period}s"),
        ("a trait", f"that never changes: {above(found.trait)} by {often}"),
        ("spend", spend),
        ("or spend", f"{lasting} in a year about a trait"),
        ("assumes", "; ".join(found.assumptions)),
    ]
    if figure is not None:
        rows.append(("figure", str(figure)))
    show("What a budget that renews reveals", rows)


def _renewal_draw(found: "Renewal", path: Path) -> bytes:
    """Return the file of the figure: this level beside the usual ones, against persistence."""
    from undertow.diagnostics.windows import LEVELS, by_persistence
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.costs import draw_renewals

    levels = sorted({*LEVELS, found.epsilon})[-4:]
    table = by_persistence(levels, limit=found.limit)
    title = f"A fresh epsilon every {found.period}, for a bit that persists"
    return figure_bytes(draw_renewals(table, title, found.period), figure_kind(path))
