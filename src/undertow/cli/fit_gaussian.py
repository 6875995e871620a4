"""``undertow fit --columns``: jointly Gaussian records from the rows of a table."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.output import show
from undertow.cli.tables import show_checks, show_table
from undertow.errors import DisclosureWarning, InvalidInput

if TYPE_CHECKING:
    from undertow.models.gaussian import MultivariateGaussian

__all__ = ["GaussianFit", "fit_gaussian"]


@dataclass(frozen=True, slots=True)
class GaussianFit:
    """A Gaussian model, the columns it came from, and how many rows were used and left out."""

    model: "MultivariateGaussian"
    columns: list[str]
    rows: int
    missing: int

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        return {
            "model": self.model.to_dict(),
            "columns": self.columns,
            "correlations": self.model.correlations.tolist(),
            "rows": self.rows,
            "left_out": self.missing,
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        model = self.model
        left = f"; {self.missing} with a missing value were left out" if self.missing else ""
        rows = [
            ("model", model.describe()),
            ("records", ", ".join(self.columns)),
            ("rows", f"{self.rows}, taken to be independent of each other{left}"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted model", [*rows, *written])
        cells = [
            [name, f"{mean:.5g}", f"{sd:.5g}", *(f"{number:.4f}" for number in numbers)]
            for name, mean, sd, numbers in zip(
                self.columns, model.mean, model.sds, model.correlations, strict=True
            )
        ]
        head = ["record", "mean", "sd", *(f"with {name}" for name in self.columns)]
        show_table("Means, standard deviations, correlations", head, cells)
        show_checks(model.checks)


def fit_gaussian(path: Path, columns: list[str], public: bool) -> GaussianFit:
    """Return the Gaussian model of some columns, one row being one draw of all of them."""
    from undertow.data.series import read_numbers
    from undertow.models.gaussian import MultivariateGaussian

    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InvalidInput(f"the column {twice[0]!r} is named twice")
    rows, missing = read_numbers(path, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        model = MultivariateGaussian.fit(rows, public=public)
    return GaussianFit(model, columns, len(rows), missing)
