"""Tables of several columns: rich on a terminal, plain aligned text elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from undertow.reporting.files import aligned
from undertow.rounding import visible

if TYPE_CHECKING:
    from undertow.models.checks import Check

__all__ = ["show_checks", "show_table"]


def show_table(title: str, header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Print a table; on a narrow terminal cells wrap between words.

    Names are printed literally: nothing in them is a command to the terminal, or markup.
    """
    from rich.console import Console

    console = Console()
    title, names = visible(title), [visible(name) for name in header or ()]
    rows = [[visible(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        typer.echo("\n".join([title, *aligned([names, *rows] if header else rows)]))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), header_style="dim", show_header=header is not None,
    )  # fmt: skip
    for place in range(len(rows[0]) if rows else len(names)):
        style = None if place else "cyan"
        name = Text(names[place] if names else "")
        table.add_column(name, style=style, no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def show_checks(checks: "Sequence[Check]") -> None:
    """Print what was tested of a fitted model, and what a failure costs; nothing if it was not."""
    if not checks:
        return
    origins = "; ".join(dict.fromkeys(check.origin for check in checks))
    rows = [(check.name, check.outcome, _whole(check.words, check.cost())) for check in checks]
    show_table(f"What was checked of the model ({origins})", ("assumption", "", "found"), rows)


def _whole(words: str, cost: str) -> str:
    return f"{words}; {cost}" if cost else words
