"""How much noise each of many releases needs: Laplace noise against Gaussian noise.

Releases on the same records are accounted by their guarantees, and the total is exchanged once.
Levels add up, so Laplace noise grows with the number of releases; rho and mu^2 add up, so Gaussian
noise grows with its square root, and is the smaller one from some number on.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from undertow.adversaries import Against
from undertow.errors import InvalidInput, NothingToProtect, NotSupported
from undertow.models.acceptance import failed
from undertow.models.sets import AnyModel
from undertow.models.standing import stands_for
from undertow.numerics import check_count, up
from undertow.planning.budget import Budget, budget_for
from undertow.planning.questions import CERTAIN
from undertow.planning.search import calibrate
from undertow.queries import Count
from undertow.rounding import above, columns

__all__ = ["RELEASES", "ReleaseNoise", "ReleaseTable", "noise_by_releases"]

RELEASES = (1, 4, 8, 9, 12, 26, 52, 104, 365)
"""The numbers of releases that are shown by default: up to one a day for a year."""

_MOST = 10**9
"""Releases among which the first at which Gaussian noise wins is searched."""


@dataclass(frozen=True, slots=True)
class ReleaseNoise:
    """The standard deviation of the noise on each of so many releases, by how they are accounted.

    For answers that one replaced record moves by at most 1. ``swept``, by the sweep, is None where
    it was not asked for. All rounded up.
    """

    releases: int
    laplace: float
    gaussian: float
    zcdp: float
    swept: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "releases": self.releases,
            "laplace": self.laplace,
            "gaussian": self.gaussian,
            "zcdp": self.zcdp,
            "swept": self.swept,
        }


@dataclass(frozen=True, slots=True)
class ReleaseTable:
    """Noise for each of several numbers of releases, all together within one limit at a delta.

    ``single`` is the noise of one release; the others follow from it.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> table = noise_by_releases(chain, 1.0, delta=1e-6)
    >>> round(table.single.laplace, 4), round(table.single.gaussian, 3), round(table.single.zcdp, 3)
    (5.6495, 16.913, 18.136)
    >>> table.wins("gaussian"), table.wins("zcdp")
    (9, 11)
    """

    limit: float
    delta: float
    against: Against
    single: ReleaseNoise
    rows: tuple[ReleaseNoise, ...]

    def __iter__(self) -> Iterator[ReleaseNoise]:
        """Iterate over the rows."""
        return iter(self.rows)

    def at(self, releases: int) -> ReleaseNoise:
        """Return the noise for any number of releases."""
        one, root = self.single, math.sqrt(releases)
        return ReleaseNoise(
            releases,
            up(one.laplace * releases),
            up(one.gaussian * root, 2),
            up(one.zcdp * root, 2),
            None if one.swept is None else up(one.swept * root, 2),
        )

    def wins(self, accounting: str = "gaussian") -> int:
        """Return the least number of releases at which this accounting needs less than Laplace.

        ``accounting`` is ``"gaussian"``, ``"zcdp"`` or ``"swept"``. Of the standard deviations:
        an expected absolute error is 0.71 of that of Laplace noise, and 0.80 of Gaussian noise.
        """
        alone = getattr(self.single, accounting, None)
        if accounting not in ("gaussian", "zcdp", "swept") or alone is None:
            raise InvalidInput(f"no noise was computed by {accounting!r}")
        # T laplace > sqrt(T) alone
        first = math.floor((alone / self.single.laplace) ** 2)
        for releases in range(max(first - 1, 1), min(first + 3, _MOST)):
            if getattr(self.at(releases), accounting) < self.at(releases).laplace:
                return releases
        raise NotSupported("so many releases that neither noise leaves anything of an answer")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "limit": self.limit,
            "delta": self.delta,
            "rows": [row.to_dict() for row in self.rows],
        }

    def __str__(self) -> str:
        """Return the table as plain text."""
        swept = self.single.swept is not None
        lines = [("releases", "Laplace", "Gaussian", *["swept"] * swept, "zCDP", "gain")]
        for row in self.rows:
            least = min(found for found in (row.gaussian, row.swept) if found is not None)
            found = [row.laplace, row.gaussian, *([row.swept] if swept else []), row.zcdp]
            shown = [above(number, max(4, len(f"{number:.0f}"))) for number in found if number]
            lines.append((str(row.releases), *shown, f"{row.laplace / least:.2f}"))
        return "\n".join(columns(lines))


def noise_by_releases(
    model: AnyModel,
    limit: float,
    against: Against = "any",
    *,
    delta: float,
    releases: Sequence[int] = RELEASES,
    sweep: bool = False,
) -> ReleaseTable:
    """Return the standard deviation of the noise on each of several numbers of releases.

    All releases together, on the same records and chosen adaptively, leak at most ``limit`` at
    ``delta``. Laplace noise by its pure level, Gaussian noise by the closed exchange of its mu and
    of its rho, with ``sweep`` also by the sweep (chains only; slower, 2% less noise). For
    queries that one replaced record moves by at most 1. One `dp_budget`.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> print(noise_by_releases(chain, 1.0, delta=1e-6, releases=(1, 9, 365)))
    releases  Laplace  Gaussian  zCDP   gain
    1         5.65     16.92     18.14  0.33
    9         50.85    50.75     54.41  1.00
    365       2063     323.2     346.5  6.38
    """
    numbers = [check_count(number, "releases", 1) for number in releases]
    found: Any = budget_for(model, limit, against, delta=delta)
    if not isinstance(found, Budget):
        raise InvalidInput("Gaussian noise needs a delta above 0, such as delta=1e-6")
    if math.isinf(found.epsilon):
        raise NothingToProtect(CERTAIN)
    swept = None
    if sweep:
        query = Count(model.states[-1]) if model.states else Count(1)
        plan = calibrate(
            query, model, limit, against, "sweep", delta=delta, noise="gaussian",
            accept=[check.name for check in failed(stands_for(model).checks)],
        )  # fmt: skip
        swept = plan.noise.amount
    single = ReleaseNoise(
        1,
        up(math.sqrt(2) / found.epsilon, 2),
        found.sigma,
        up(math.sqrt(0.5 / found.rho), 4),
        swept,
    )
    table = ReleaseTable(limit, delta, against, single, ())
    rows = tuple(table.at(number) for number in numbers)
    return ReleaseTable(limit, delta, against, single, rows)
