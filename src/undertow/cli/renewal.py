"""``undertow leakage --renew``: a level that is spent afresh every day, week or month."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.files import write_bytes
from undertow.cli.guarantee_options import GuaranteeText
from undertow.cli.options import WindowText, figure_kind, misuse
from undertow.cli.output import above, adversary_fields, answer, below, interval, show, waiting

if TYPE_CHECKING:
    from undertow.adversaries import Against
    from undertow.models.sets import AnyModel
    from undertow.planning.renewals import Period, Renewal

__all__ = ["RenewalText", "tell_renewal"]

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
    from undertow.planning.renewals import renewal

    records, window = asked.records(), asked.whole.read(timed=True)
    with waiting("computing the leakage"):
        found = renewal(
            model, known.epsilon or 0.0, asked.period, records=records, against=against,
            limit=1.0 if asked.limit is None else asked.limit, protect=window,
        )  # fmt: skip
    if asked.figure is not None:
        with waiting("drawing"):
            write_bytes(asked.figure, _draw(found, asked.figure), force=force)
    drawn = {} if asked.figure is None else {"figure": str(asked.figure)}
    answer(
        found.to_dict() | {"against": adversary_fields(against)} | drawn,
        lambda: _tell(found, model, against, asked.figure),
        as_json=as_json,
    )


def _tell(found: "Renewal", model: "AnyModel", against: "Against", figure: Path | None) -> None:
    from undertow.adversaries import words

    each = f"every {found.period}"
    size = "" if found.records == 1 else f", which has {found.records}"
    often = f"the {found.year} records of a year"
    what = found.window.words()
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


def _draw(found: "Renewal", path: Path) -> bytes:
    """Return the file of the figure: this level beside the usual ones, against persistence."""
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.renewals import draw_renewals
    from undertow.planning.renewals import LEVELS, by_persistence

    levels = sorted({*LEVELS, found.epsilon})[-4:]
    table = by_persistence(levels, limit=found.limit)
    title = f"A fresh epsilon every {found.period}, for a bit that persists"
    return figure_bytes(draw_renewals(table, title, found.period), figure_kind(path))
