"""Templates, which escape everything they are given, and the texts that pages share."""

from functools import cache
from typing import TYPE_CHECKING, Any

from undertow import __version__
from undertow.reporting.words import sentence
from undertow.rounding import above, below, odds, visible
from undertow_studio.odds import beliefs, factor

if TYPE_CHECKING:
    import jinja2

__all__ = ["in_words", "render"]

STEPS = (
    ("data", "Data or model", "Start"),
    ("depends", "Dependence model", "Model"),
    ("question", "Query and adversary", "Query"),
    ("costs", "Plan and cost", "Plan"),
    ("attacker", "Simulate an attack", "Attack"),
    ("release", "Review and release", "Release"),
)
"""The steps of the path: their place, their title, and a short one."""


@cache
def environment() -> "jinja2.Environment":
    """Return the templates' environment: everything is escaped, nothing may be undefined."""
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("undertow_studio"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.globals |= {
        "steps": STEPS,
        "version": __version__,
        "beliefs": beliefs,
        "factor": factor,
    }
    templates.filters |= {
        "above": above, "below": below, "odds": odds, "visible": lambda text: visible(str(text)),
        "number": _number, "sentence": sentence,
    }  # fmt: skip
    return templates


def render(template: str, **content: Any) -> str:
    """Return a page."""
    return environment().get_template(f"{template}.html.j2").render(**content)


def _number(value: float | None, digits: int = 3) -> str:
    """Return a number for people.

    >>> _number(3.95341), _number(4032), _number(None)
    ('3.95', '4,032', 'none')
    """
    if value is None:
        return "none"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def in_words(error: BaseException) -> str:
    """Return what a refusal says, in one line in which nothing is hidden.

    >>> in_words(ValueError("choose a  column"))
    'choose a column'
    """
    if isinstance(error, MemoryError):
        return "this needs more memory than there is; use fewer states, or fewer records"
    return visible(" ".join(str(error).split()))
