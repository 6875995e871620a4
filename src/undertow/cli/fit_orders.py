"""Fits of order two, and orders compared, for ``undertow fit --order``."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.fit_chain import ChainAsked, ChainFit, fit_one, named
from undertow.cli.options import misuse
from undertow.cli.output import above, below, show
from undertow.cli.tables import show_checks, show_table
from undertow.errors import DisclosureWarning

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.models.hidden_fitting import FittedHiddenChain
    from undertow.models.second_order_fits import FittedSecondOrderChain
    from undertow.models.sets import AnyModel
    from undertow.planning.orders import OrderTable

__all__ = ["AutoFit", "HiddenFit", "SecondFit", "fit_auto", "fit_regimes", "fit_second"]


@dataclass(frozen=True, slots=True)
class SecondFit:
    """A chain of order two and what is said about it."""

    chain: "FittedSecondOrderChain"
    confidence: float

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
        return self.chain

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain, kept = self.chain, self.chain.tally
        return {
            "model": chain.to_dict(),
            "order": 2,
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.pair_law.tolist(),
            "counts": chain.counts.tolist(),
            "prior": chain.prior,
            "confidence": self.confidence,
            "intervals": chain.intervals(self.confidence).tolist(),
            "unseen": [list(run) for run in chain.unseen],
            "sequences": None if kept is None else kept.series,
            "records": None if kept is None else kept.records,
            "missing": None if kept is None else kept.missing,
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, said = self.chain, self.fields()
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "not said"),
            ("series", f"{said['sequences']}"),
            ("records", f"{said['records']}, of which {said['missing']} are missing"),
            ("runs", f"{int(chain.counts.sum())} of three neighbours that are all there"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted chain of order two", [*rows, *written])
        sure = f"{100 * self.confidence:.6g}% confidence intervals"
        intervals = chain.intervals(self.confidence)
        pairs = [(x, y) for x in range(chain.size) for y in range(chain.size)]
        cells = [
            [
                f"after {chain.states[x]}, {chain.states[y]}",
                *(
                    f"{share:.4g} ({below(low, 4)} to {above(high, 4)})"
                    for share, (low, high) in zip(
                        chain.transition[x, y], intervals[x, y], strict=True
                    )
                ),
            ]
            for x, y in pairs
        ]
        show_table(
            f"Transition probabilities, with {sure}",
            ["", *(f"to {state}" for state in chain.states)], cells,
        )  # fmt: skip
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class HiddenFit:
    """A hidden chain that can be planned with, and what is said about it."""

    chain: "FittedHiddenChain"

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
        return self.chain

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain = self.chain
        return {
            "model": chain.to_dict(),
            "states": list(chain.states),
            "symbols": list(chain.symbols),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "log_likelihood": chain.log_likelihood,
            "bic": chain.bic,
            "records": chain.sample_size,
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain = self.chain
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "not said"),
            ("records", f"{chain.sample_size}"),
            ("BIC", f"{chain.bic:.0f}"),
            ("law", "attractive: the likeliest one of those that can be planned with"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted hidden chain", [*rows, *written])
        per = len(chain.symbols) // len(chain.states)
        named = [f"{symbol} {place % per + 1}" for place, symbol in enumerate(chain.symbols)]
        cells = [
            [f"from {name}", *(f"{share:.4g}" for share in row)]
            for name, row in zip(named, chain.transition, strict=True)
        ]
        show_table("Transitions of the hidden states", ["", *(f"to {n}" for n in named)], cells)
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class AutoFit:
    """The order that was chosen, and what it was chosen from."""

    chosen: ChainFit | SecondFit | HiddenFit
    table: "OrderTable"
    figure: Path | None

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
        return self.chosen.model

    def fields(self) -> dict[str, Any]:
        """Return the fit and the comparison as the fields of a JSON object."""
        drawn = {} if self.figure is None else {"figure": str(self.figure)}
        return self.chosen.fields() | {"orders": self.table.to_dict()} | drawn

    def tell(self, output: Path | None) -> None:
        """Print the comparison, and the fit."""
        table = self.table
        head, *rows = table.rows()
        show_table(f"Orders compared: {table.words()}", head, rows)
        notes = [("note", note) for note in table.notes]
        if table.measured is not None:
            found = table.measured
            said = f"autocorrelations add up to {found.measured:.3g} over {found.lags} steps"
            notes.insert(0, ("records themselves", said))
        best = table.best
        if best is not table.plannable:
            said = (
                "describes the records better, and nobody can plan with it against attackers who "
                "know some records: see what a plan leaks there with 'undertow robustness', or "
                "make regimes that are public a context of their own"
            )
            notes.append((best.name, said))
        if self.figure is not None:
            notes.append(("figure", str(self.figure)))
        if notes:
            show("Of these", notes)
        self.chosen.tell(output)


def fit_second(table: "Data", asked: ChainAsked) -> SecondFit:
    """Return the fit of a chain of order two to all records of a table."""
    from undertow.models.markov import MarkovChain

    read = asked.read(table)
    given = read.states if len(read.states) > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = MarkovChain.fit(
            read, given, order=2, prior=asked.prior, length=asked.length, public=asked.public
        )
    return SecondFit(asked.described(chain), asked.confidence)


def fit_regimes(table: "Data", asked: ChainAsked) -> HiddenFit:
    """Return the attractive fit of two hidden states for each state to all records of a table."""
    if asked.prior:
        raise misuse("--prior is for chains of order one and two; leave it out with --order hidden")
    return _regimes(table, asked)


def _regimes(table: "Data", asked: ChainAsked) -> HiddenFit:
    from undertow.models.hidden_chain import HiddenChain

    read: Any = table
    if table.piece is None:
        read = named(table.encoded(), table, asked.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = HiddenChain.fit(read, attractive=True, length=asked.length, public=asked.public)
    return HiddenFit(chain)


def fit_auto(table: "Data", asked: ChainAsked, figure: Path | None) -> AutoFit:
    """Return the fit of the order with the least BIC among those that can be planned with.

    A table that is read in pieces has orders one and two compared; others four, and hidden states.
    """
    from undertow.planning.orders import compare_orders

    whole = table.piece is None
    read: Any = (
        named(table.encoded(), table, asked.states)
        if whole
        else named(table.tally(), table, asked.states)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        found = compare_orders(read, prior=asked.prior, public=asked.public)
    chosen: ChainFit | SecondFit | HiddenFit
    if found.plannable.hidden:
        chosen = _regimes(table, asked)
    else:
        chosen = (fit_one if found.plannable.order == 1 else fit_second)(table, asked)
    return AutoFit(chosen, found, figure)
