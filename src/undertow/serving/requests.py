"""What clients send to a ledger service, as the ledger takes it."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from undertow.data.scopes import Scope

__all__ = [
    "MOST_GROUPS",
    "Amount",
    "Cancelled",
    "Confirmed",
    "EntryHash",
    "Limit",
    "Page",
    "Question",
    "Records",
]

MOST_GROUPS = 1000
"""Groups that one question is about: each is looked up."""


EntryHash = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="the hash of an entry")]


class _Strict(BaseModel):
    """A body with no field but its own, and no number that is none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Records(_Strict):
    """Which records a release touches; what is left out stands for all.

    ``start`` and ``end`` are whole numbers on the stated clock (start <= time < end); ``groups``
    are values of the column ``by``.
    """

    by: str | None = None
    groups: list[str] | None = None
    start: int | None = None
    end: int | None = None
    clock: str = "time"

    def scope(self) -> Scope:
        """Return the records as the ledger names them."""
        return Scope(self.by, self.groups, self.start, self.end, self.clock)


class Question(Records):
    """Records of which a reader asks what still fits them; all groups if they are left out."""

    groups: Annotated[
        list[str] | None,
        Field(max_length=MOST_GROUPS, description="of more groups ask in parts: the least counts"),
    ] = None


class Amount(_Strict):
    """What a release spends: a DP level for one replaced record, or mu, rho; a delta beside them.

    ``about`` describes the release and must be the same when it is repeated; nothing private
    belongs into it. A redaction has its proved leakage in place of a level.
    """

    level: float | None = None
    mu: float | None = None
    rho: float | None = None
    delta: float | None = None
    records: Records = Records()
    about: dict[str, Any] = Field(default_factory=dict)
    leakage: Annotated[float | None, Field(description="of a redaction, which has no level")] = None


class Confirmed(_Strict):
    """What was published: the first confirmation of a release wins."""

    result: dict[str, Any]


class Cancelled(_Strict):
    """Why a release that never began is given up; recorded."""

    why: str


class Limit(_Strict):
    """A new limit on what all releases together may leak; the delta stays if left out."""

    limit: float
    delta: float | None = None


class Page(BaseModel):
    """Which entries are listed: those reserved after a release, so many at most."""

    model_config = ConfigDict(extra="forbid")

    after: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
