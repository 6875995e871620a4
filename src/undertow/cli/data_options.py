"""The options that say how to read a table, shared by the commands that read private records."""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.commands import option
from undertow.cli.options import find_state, misuse, names

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.plan import Plan

__all__ = [
    "DataText",
    "ReleasedText",
    "RowsText",
    "SeriesText",
    "TableText",
    "people_of",
]


@dataclass(frozen=True, slots=True)
class RowsText:
    """Whose rows those of a table are, and when, as it was typed."""

    person: str | None = option("COLUMN", "Whose record it is; by default one person's.")
    time: str | None = option("COLUMN", "When; by default rows are in order of time.")
    every: str | None = option("STEP", "The time step: 5m, 1h, 1d, or a number.")
    memory: str | None = option(
        "SIZE", "Read a table that needs more memory in pieces, sorted by person and time "
        "(default 1GB)."
    )  # fmt: skip

    def outputs(self, column: str) -> "SeriesText":
        """Return how to read a randomised table of these rows: its outputs are in a column."""
        return SeriesText(self.person, self.time, self.every, self.memory, column)


@dataclass(frozen=True, slots=True)
class SeriesText(RowsText):
    """How to read a table of series, as it was typed."""

    value: str | None = option("COLUMN", "The column that holds the records.")
    state: str | None = option(
        "SQL|CUTS", "What makes a state of a record: 'steps > 0', or cut points 0.5,1,2."
    )
    window: str | None = option("FROM,TO", "Only records from FROM on and before TO (not at TO).")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        for name, text in (("--every", self.every), ("--window", self.window)):
            if text is not None and self.time is None:
                raise misuse(f"{name} goes with --time")
        if self.value is None and not isinstance(_state(self.state), str):
            raise misuse("say what the records are: --value, or --state with an expression")

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window applied; ``more`` are further arguments of `Data`."""
        from undertow.data.memory import DEFAULT
        from undertow.data.table import Data

        table = Data(
            path,
            value=self.value,
            person=self.person,
            time=self.time,
            state=_state(self.state),
            every=None if self.every is None else _number(self.every),
            memory=DEFAULT if self.memory is None else self.memory,
            **more,
        )
        return table if self.window is None else table.window(*_ends(self.window))


@dataclass(frozen=True, slots=True)
class TableText(SeriesText):
    """How to read a table, as it was typed: its series, and groups of their records."""

    by: str | None = option("COLUMN", "One answer for each of its groups.")
    groups: str | None = option("NAMES", "The groups; by default those that occur.")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.groups is not None and self.by is None:
            raise misuse("--groups goes with --by")
        SeriesText.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        wanted = None if self.groups is None else names(self.groups, "--groups")
        return SeriesText.read(self, path, by=self.by, groups=wanted, **more)


@dataclass(frozen=True, slots=True)
class ReleasedText(TableText):
    """The options of a command that say how to read the table to be released."""

    ungrouped: bool = option(
        None, "Vouch for a model of groups where no column says who belongs together.", False
    )

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or exclude each other."""
        if self.ungrouped and self.person is not None:
            raise misuse("--ungrouped says that no column tells who belongs together: no --person")
        TableText.__post_init__(self)

    def read(self, path: Path, **more: Any) -> "Data":
        """Return the data, its window and groups applied."""
        return TableText.read(self, path, ungrouped=self.ungrouped, **more)


@dataclass(frozen=True, slots=True)
class DataText(ReleasedText):
    """How to read a table whose records are counted, or the genotypes of a file."""

    gaps: str = option("HOW", "'split' a series there, or the state of a gap.", "split")
    locus: str | None = option(
        "CHR:POS",
        "For a VCF file: the variant, by place or name; people as in the plan's pedigree.",
    )
    allele: str | None = option("BASES", "... and which allele is B (default: ALT).")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.locus is not None:
            if any(text not in (None, "split", False) for text in astuple(self)[:-2]):
                raise misuse("--locus goes with a VCF file, which says itself what its records are")
            return
        if self.allele is not None:
            raise misuse("--allele goes with --locus")
        ReleasedText.__post_init__(self)
        if self.gaps != "split" and self.every is None:
            raise misuse("--gaps needs --every, the time step that says where a record is absent")

    def read_for(self, path: Path, plan: "Plan[Any] | None") -> "Data":
        """Return the data for a plan: a gap's state is one of its own, by its text.

        Genotypes are those of the people of its pedigree, in its order.
        """
        if self.locus is not None:
            from undertow.data.genotypes import genotype_table

            people = () if plan is None else people_of(plan)
            return genotype_table(path, self.locus, people or None, allele=self.allele)
        states = () if plan is None else plan.states
        gaps = "split" if self.gaps == "split" else find_state(self.gaps, states)
        return self.read(path, gaps=gaps)


def people_of(plan: "Plan[Any]") -> tuple[Any, ...]:
    """Return the people of a plan's pedigree, in the order of its records; none without one."""
    from undertow.models.pedigree import Pedigree

    found = [model for model in plan.model.members() if isinstance(model, Pedigree)]
    return found[0].people if found else ()


def _state(text: str | None) -> str | list[float] | None:
    """Return cut points where all that was typed is numbers, else the expression."""
    if text is None:
        return None
    cuts = [_number(part.strip()) for part in text.split(",")]
    return text if any(isinstance(cut, str) for cut in cuts) else cuts


def _ends(text: str) -> list[Any]:
    """Return both ends of a window: numbers where they are numbers, else the text of a time."""
    ends = [part.strip() for part in text.split(",")]
    if len(ends) != 2 or not any(ends):
        raise misuse(f"--window needs FROM,TO, of which one may be left out; found {text!r}")
    return [_number(end) if end else None for end in ends]


def _number(text: str) -> Any:
    """Return the number that was typed, or the text if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
