"""Tables of several columns: rich on a terminal, plain aligned text elsewhere."""

from collections.abc import Sequence

import typer

from undertow.rounding import visible

__all__ = ["show_table"]


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, names literally; on a narrow terminal cells wrap between words."""
    from rich.console import Console

    console = Console()
    title, header = visible(title), [visible(name) for name in header]
    rows = [[visible(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        typer.echo("\n".join(plain_table(title, header, rows)))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), header_style="dim",
    )  # fmt: skip
    for place, name in enumerate(header):
        style = None if place else "cyan"
        table.add_column(Text(name), style=style, no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, each column as wide as its widest cell.

    >>> print("\\n".join(plain_table("Prices", ["what", "how much"], [["tea", "2"]])))
    Prices
      what  how much
      tea   2
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
    return [title, *(f"  {line}".rstrip() for line in lines)]
