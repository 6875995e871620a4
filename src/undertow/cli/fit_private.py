"""``undertow fit --private``: a chain learnt through noise, which an account pays for."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.commands import option
from undertow.cli.options import KeyOption, misuse, open_ledger
from undertow.cli.output import above, below, show
from undertow.cli.tables import show_checks, show_table

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.ledger.book import Ledger
    from undertow.models.chain_classes import ChainBox
    from undertow.models.private_fits import PrivateFit

__all__ = ["LearningText", "PrivateChain", "learn"]


@dataclass(frozen=True, slots=True)
class LearningText:
    """The account that pays for a private fit, as it was typed."""

    private: float | None = option("LEVEL", "Through noise of this DP level, which --ledger pays.")
    ledger: str | None = option("LEDGER", "... the account of these records: a file or URL,")
    dataset: str | None = option("NAME", "... and the data set in it.")
    narrow: bool = option(
        None, "Go over to the region of the fit in that account: plan under it from now on.", False
    )
    key: KeyOption = None

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if (self.private is None) != (self.ledger is None):
            raise misuse("--private and --ledger go together: a private fit is paid for")
        if self.ledger is None and (self.dataset or self.narrow or self.key):
            raise misuse("--dataset, --narrow and --key go with --private and --ledger")


@dataclass(frozen=True, slots=True)
class PrivateChain:
    """A private fit and what is said about it; ``model`` is its region, which a file gets."""

    chain: "PrivateFit"
    model: "ChainBox"
    narrowed: bool
    left: float

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object; all of it is noisy, or public."""
        chain = self.chain
        return {
            "model": self.model.to_dict(),
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "noisy_counts": chain.noisy.tolist(),
            "level": chain.level,
            "scale": chain.scale,
            "confidence": chain.confidence,
            "release_id": chain.release_id,
            "narrowed": self.narrowed,
            "left": self.left,
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, sure = self.chain, f"{100 * self.chain.confidence:.6g}%"
        rows = [
            ("model", chain.describe()),
            ("region", f"holds the true chain with confidence {sure}, over records and noise"),
            ("noise", f"discrete Laplace of scale {above(chain.scale)} on every count"),
            ("level", f"{above(chain.level)}, paid by the account"),
            ("release", str(chain.release_id)),
            ("account", "under the region now" if self.narrowed else "as it was (see --narrow)"),
            ("left", f"a DP level of {below(self.left)}{self._fits()}"),
            *([] if output is None else [("written to", f"{output} (the region)")]),
        ]
        show("The chain, learnt privately", rows)
        header = ["", *(f"to {state}" for state in chain.states)]
        cells = [
            [f"from {state}", *(f"{p:.4g} ({below(a, 4)} to {above(b, 4)})" for p, a, b in row)]
            for state, row in zip(chain.states, self._rows(), strict=True)
        ]
        show_table("Transition probabilities, and their region", header, cells)
        show_checks(self.model.checks)

    def _fits(self) -> str:
        """Return the limit of a plan under the region that spends what is left, in words."""
        if not (self.narrowed and self.left):
            return ""
        from undertow.bounds.engine import leakage
        from undertow.guarantees import PureDP

        # what is left leaks this much by itself; a little less finds a plan that fits
        fits = below(leakage(PureDP(self.left), self.model).upper, 3)
        return f": a plan with --limit {fits} fits"

    def _rows(self) -> list[list[tuple[float, float, float]]]:
        parts = (self.chain.transition, self.model.lower, self.model.upper)  # each (from, to)
        together = zip(*(part.tolist() for part in parts), strict=True)
        return [list(zip(*row, strict=True)) for row in together]


def learn(
    table: "Data", asked: LearningText, states: list[str] | None, confidence: float
) -> PrivateChain:
    """Return the chain learnt from a table through noise, its account narrowed if that was asked.

    The same fit again gives the recorded counts and spends nothing.
    """
    from undertow.learning import private_fit

    book = open_ledger(str(asked.ledger), asked.dataset, asked.key)
    named = None if states is None else _known(states, book)
    chain = private_fit(
        table, named, level=asked.private or 0.0, ledger=book, confidence=confidence
    )
    if asked.narrow and not book.narrowed:
        book.narrow(str(chain.release_id))
    return PrivateChain(chain, chain.region(), book.narrowed, book.left())


def _known(states: list[str], book: "Ledger") -> list[Any]:
    """Return the states of the account by their texts."""
    from undertow.cli.options import find_state

    return [find_state(name, book.model.states) for name in states]
