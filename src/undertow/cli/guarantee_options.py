"""The options of approximate guarantees: delta, kinds of noise, what is known of an algorithm."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from undertow.cli.commands import option
from undertow.cli.options import Unit, misuse

if TYPE_CHECKING:
    from undertow.guarantees import Guarantee, PureDP
    from undertow.mechanisms import Noise
    from undertow.queries import AnyQuery

__all__ = ["AmountText", "DeltaOption", "GuaranteeText", "NoiseText", "several"]

DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="D",
        help="The leakage at this delta: odds may move by more than 2 e^leakage with probability "
        "2 D. By default 0.",
    ),
]
NoiseOption = Annotated[
    Literal["laplace", "gaussian", "discrete-gaussian"] | None,
    typer.Option("--noise", help="The kind of noise; Gaussian noise needs --delta."),
]


@dataclass(frozen=True, slots=True)
class NoiseText:
    """What is planned beside the limit, as it was typed: a delta, a kind of noise, how often."""

    delta: DeltaOption = None
    noise: NoiseOption = None
    releases: int | None = option(
        "T", "How many releases on the same records keep the limit together (default 1)."
    )

    def told(self) -> dict[str, Any]:
        """Return what the library is told, if anything is."""
        given = {"delta": self.delta, "noise": self.noise, "releases": self.releases}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class GuaranteeText:
    """What is known of an algorithm, as it was typed."""

    epsilon: float | None = option("E", "Any algorithm of this DP level ...")
    guarantee_delta: float | None = option("D", "... at this delta of its own: (E, D)-DP ...")
    rho: float | None = option("RHO", "... any RHO-zCDP algorithm ...")
    mu: float | None = option("MU", "... any MU-GDP algorithm ...")
    neighbours: Literal["replace", "add-remove"] | None = option(
        None, "... for one record replaced (default), or one added or removed ..."
    )
    unit: Unit | None = option(None, "... or for a whole person.")

    @property
    def asked(self) -> str | None:
        """The option that names a guarantee, None if there is none."""
        named = (("--epsilon", self.epsilon), ("--rho", self.rho), ("--mu", self.mu))
        given = [name for name, value in named if value is not None]
        if len(given) > 1:
            raise misuse(f"say what is known of the algorithm once: {' or '.join(given)}")
        return given[0] if given else None

    def check(self) -> None:
        """Refuse options that lack their companion."""
        asked = self.asked
        if self.guarantee_delta is not None and self.epsilon is None:
            raise misuse(
                "--guarantee-delta goes with --epsilon; the delta of the answer is --delta"
            )
        if self.unit is not None and asked is None:
            raise misuse("--unit goes with --epsilon; noisy answers and flips protect records")
        if self.neighbours is not None and asked is None:
            raise misuse("--neighbours goes with --epsilon, --rho or --mu")

    def fields(self) -> dict[str, Any]:
        """Return for programs which neighbours a guarantee was taken for, and who said so."""
        if self.asked is None:
            return {}
        return {
            "neighbours": self.neighbours or "replace",
            "neighbours_assumed": self.neighbours is None,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return in words which neighbours a guarantee was taken for."""
        if self.asked is None:
            return []
        unit = self.unit or "record"
        if self.neighbours == "add-remove":
            what = f"{self.asked} is for one {unit} added or removed, so one replaced counts twice"
        else:
            said = "is" if self.neighbours else "was taken to be"
            what = f"{self.asked} {said} for one {unit} replaced"
        if self.neighbours is None:
            what += (
                "; if it is for one added or removed, as in OpenDP, Tumult and PipelineDP, say "
                "--neighbours add-remove: then more leaks"
            )
        return [("neighbours", what)]

    def read(self) -> "PureDP | Guarantee":
        """Return the guarantee."""
        from undertow.guarantees import GDP, ZCDP, ApproximateDP, PureDP

        unit, neighbours = self.unit or "record", self.neighbours or "replace"
        more: Any = {"unit": unit, "neighbours": neighbours}
        if self.rho is not None:
            return ZCDP(self.rho, **more)
        if self.mu is not None:
            return GDP(self.mu, **more)
        epsilon = self.epsilon or 0.0
        if self.guarantee_delta is not None:
            return ApproximateDP(epsilon, self.guarantee_delta, **more)
        return PureDP(2 * epsilon if neighbours == "add-remove" else epsilon, unit)


@dataclass(frozen=True, slots=True)
class AmountText:
    """How much noise an answer has, as it was typed."""

    noise: NoiseOption = None
    scale: float | None = option("B", "Laplace scale of a noisy answer ...")
    sigma: float | None = option("S", "... or the standard deviation of its Gaussian noise.")

    @property
    def asked(self) -> str | None:
        """The first option that was typed, None if there is none."""
        named = (("--scale", self.scale), ("--sigma", self.sigma), ("--noise", self.noise))
        return next((name for name, value in named if value is not None), None)

    def check(self) -> None:
        """Refuse no amount of noise, two of them, and the wrong one."""
        if self.scale is not None and self.sigma is not None:
            raise misuse("say one of --scale (Laplace noise) and --sigma (Gaussian noise)")
        if self.scale is None and self.sigma is None:
            raise misuse(
                "a noisy answer needs --scale, the scale of its Laplace noise, or --sigma, the "
                "standard deviation of its Gaussian noise"
            )
        if self.noise is not None and (self.noise == "laplace") != (self.sigma is None):
            right = "--scale" if self.noise == "laplace" else "--sigma"
            raise misuse(f"--noise {self.noise} goes with {right}")

    def read(self, query: "AnyQuery") -> "Noise":
        """Return the query with its noise."""
        from undertow.mechanisms import DiscreteGaussian, Gaussian, Laplace, Selection
        from undertow.queries import TopK

        if self.sigma is None and isinstance(query, TopK):
            return Selection(query, self.scale or 0.0)
        if self.sigma is None:
            return Laplace(query, self.scale or 0.0)
        kind = DiscreteGaussian if self.noise == "discrete-gaussian" else Gaussian
        return kind(query, self.sigma)


def several(releases: int) -> str:
    """Return how many releases a limit is for, in words.

    >>> several(52), several(1)
    (', by 52 releases together', '')
    """
    return f", by {releases} releases together" if releases > 1 else ""
