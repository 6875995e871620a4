"""A model as somebody would add it: one file for what it is."""

from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.errors import InvalidModel
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.validation import fields, number, whole
from undertow.queries import BaseQuery, State


@dataclass(frozen=True, slots=True)
class StuckSensor(Model):
    """A sensor that repeats its last reading with probability ``stuck``, and else measures anew."""

    kind: ClassVar[str] = "stuck-sensor"

    stuck: float
    share: float
    length: int

    def __post_init__(self) -> None:
        """Check the probabilities."""
        if not (0 <= self.stuck < 1 and 0 < self.share < 1):
            raise InvalidModel("stuck and share must be probabilities")

    @property
    def states(self) -> tuple[State, ...]:
        """Off or on."""
        return ("off", "on")

    def chain(self) -> MarkovChain:
        """Return the law of the readings."""
        fresh = [(1 - self.stuck) * (1 - self.share), (1 - self.stuck) * self.share]
        rows = [[fresh[0] + self.stuck, fresh[1]], [fresh[0], fresh[1] + self.stuck]]
        return MarkovChain(rows, self.states, [1 - self.share, self.share], self.length)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"sensor that is stuck with probability {self.stuck:g}, {self.length} readings"

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        own = {"stuck": self.stuck, "share": self.share, "length": self.length}
        return {"kind": self.kind, **own}

    @classmethod
    def from_law_dict(cls, description: Any) -> "StuckSensor":
        """Return the model described by `law_dict`."""
        read = fields(description, "a stuck sensor", ("stuck", "share", "length"), ("kind",))
        stuck, share = (number(read[name], name) for name in ("stuck", "share"))
        return cls(stuck, share, whole(read["length"], "length"))

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the law of the readings, for auditors to draw from."""
        return [self.chain()]
