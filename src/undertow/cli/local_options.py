"""The options of questions about the series itself: how it is planned, flipped, redacted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from undertow.cli.commands import option
from undertow.cli.options import misuse, numbers, read_records

if TYPE_CHECKING:
    from undertow.channels import RandomizedResponse
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.queries import LocalQuery, State

__all__ = ["LocalText", "RecordsText", "read_flips"]


@dataclass(frozen=True, slots=True)
class RecordsText:
    """What becomes of records that are missing or in no state, as it was typed."""

    strict: bool = option(
        None,
        "Refuse records that are missing or in no state, by their row; that refusal depends on the "
        "records.",
        False,
    )

    def rest(self, plan: "Plan[Any]") -> "State | None":
        """Return the state that such records have in a plan, None if they are refused."""
        return None if self.strict else plan.rest


@dataclass(frozen=True, slots=True)
class LocalText:
    """A question about the series itself, as it was typed: flipped, or redacted."""

    series: bool = option(None, "The whole series, each record flipped at random.", False)
    redacted: bool = option(None, "The series, records erased around those of --protect.", False)
    objective: str | None = option(
        "AIM",
        "Of --series: fewest 'flips' (default), most 'information', or the costs 1,2 of "
        "flipping each state.",
    )
    protect: str | None = option("I,J", "Only these records need protection.")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or have the wrong one."""
        if self.series and self.redacted:
            raise misuse("ask for one of --series and --redacted")
        if self.objective is not None and not self.series:
            raise misuse("--objective goes with --series")
        if self.redacted and self.protect is None:
            raise misuse("--redacted needs --protect, the records that must stay hidden")
        if self.series and self.protect is not None:
            raise misuse("--protect goes with --redacted; a flipped series protects every record")

    @property
    def asked(self) -> bool:
        """Whether the series itself is asked for."""
        return self.series or self.redacted

    def read(self, length: int | None) -> "LocalQuery":
        """Return the query; ``length`` is what was typed for it, None if nothing was."""
        from undertow.queries import Redacted, Series

        if self.series:
            return Series()
        return Redacted(read_records(self.protect or "", "--protect"), length)

    def aim(self) -> Any:
        """Return what the flips are chosen for: a name, or a cost for each state."""
        text = self.objective
        if text is None or text in ("flips", "information"):
            return text
        return numbers(text, "--objective")


def read_flips(text: str, model: "AnyModel") -> "RandomizedResponse":
    """Return the flips that were typed: one probability for all states, or one for each of two."""
    from undertow.channels import RandomizedResponse
    from undertow.errors import NotSupported

    probabilities = numbers(text, "--flips")
    if len(probabilities) == 2:
        return RandomizedResponse.binary(*probabilities)
    if len(probabilities) != 1:
        raise misuse(
            f"--flips needs one probability, or one for each of two states; found {text!r}"
        )
    states = len(model.states)
    if not states:
        raise NotSupported("the model names no states, so there is nothing to flip to")
    return RandomizedResponse.symmetric(states, probabilities[0])
