"""The base class of correlation models: frozen descriptions of how records depend on each other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from undertow.errors import MethodRefused, NotSupported, UnknownState
from undertow.models.fitting.checks import Check, estimated, mark_accounted
from undertow.models.records import (
    UNSTATED,
    Origin,
    RecordDescription,
    StateRule,
    check_origin,
    weakest,
)
from undertow.numerics import shown
from undertow.queries import BaseQuery, State

if TYPE_CHECKING:
    from undertow.models.chains import MarkovChain
    from undertow.models.fitting.auto import Alternatives
    from undertow.models.lowered import LoweredLaw

__all__ = ["Model", "advise_point", "stands_for"]

M = TypeVar("M", bound="Model")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of a model: its records, its origin, its checks, its region.

    None: not stated. ``source`` is the model that this one was derived from, and whether this one
    stands for itself although the source stands for a region; checks are computed from it.
    ``alternatives`` are the candidates of the fit that the model was chosen from.
    """

    records: RecordDescription | None = None
    origin: Origin = "hand"
    checks: tuple[Check, ...] | None = None
    region: "Model | None" = None
    source: "tuple[Model, bool] | None" = None
    alternatives: "Alternatives | None" = None


_UNSTATED = Provenance()


class Model:
    """Base class of models, with the answers that most of them give.

    A model is a frozen dataclass with this base, a ``kind``, ``describe``, ``to_dict`` and
    ``from_dict``, and a line in `undertow.models.registry` that names it and the module which
    proves its leakages.
    """

    __slots__ = ("_provenance",)

    kind: ClassVar[str]
    """Its name in files, and in the registry."""

    family: ClassVar[str] = "other"
    """Which solvers of `undertow.planning` know it: chain, second-order, network, gaussian, groups,
    other."""

    records_are_persons: ClassVar[bool] = False
    """Whether every record is a person, so that persons depend on each other."""

    if TYPE_CHECKING:

        @property
        def length(self) -> int | None:
            """The number of records, None for series of any length."""

        @property
        def states(self) -> tuple[State, ...]:
            """The values that a record can have, () for numbers and where none are named."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the fit; () for a model that was not fitted.

        A law derived from a fit has the checks of the fit, computed on first use.
        """
        provenance = self.provenance
        if provenance.checks is not None:
            return provenance.checks
        if provenance.source is None:
            return ()
        model, alone = provenance.source
        checks = estimated(model.checks) if alone else model.checks
        self._set_provenance(checks=checks)
        return checks

    def with_checks(self, checks: Sequence[Check]) -> Self:
        """Return the same model with these checks; two such models are equal."""
        return self._with(checks=tuple(checks))

    @property
    def alternatives(self) -> "Alternatives":
        """The candidates of the `undertow.fit` that chose the model."""
        if self.provenance.alternatives is None:
            raise NotSupported(
                "the model was not chosen among candidates; undertow.fit(data) compares them"
            )
        return self.provenance.alternatives

    def with_alternatives(self, alternatives: "Alternatives") -> Self:
        """Return the same model, chosen from these candidates; two such models are equal."""
        return self._with(alternatives=alternatives)

    @property
    def provenance(self) -> Provenance:
        """Provenance; models that differ in it alone are equal."""
        return getattr(self, "_provenance", _UNSTATED)

    def _set_provenance(self, **parts: Any) -> None:
        """Set parts of the provenance; for constructors, and for what is computed once."""
        object.__setattr__(self, "_provenance", replace(self.provenance, **parts))

    def _with(self, **parts: Any) -> Self:
        """Return a copy with other parts of the provenance."""
        other = copy(self)
        other._set_provenance(**parts)
        return other

    @property
    def records(self) -> RecordDescription:
        """The description of one record: its step, its states, its series, its context."""
        return self.provenance.records or UNSTATED

    def _state_step(self, every: str | int | None) -> None:
        """Set the step between records, if it is stated; for constructors."""
        if every is not None:
            self._set_provenance(records=RecordDescription(every=every))

    def with_records(self, records: RecordDescription) -> Self:
        """Return the same model for records of this description; two such models are equal."""
        return self._with(records=records)

    def passed_on(self, other: M, checks: Sequence[Check] | None = None) -> M:
        """Return another model of the same records, with their description, origin and checks.

        ``checks`` are those that stand for the other model, by default this one's.
        """
        tested = self.checks if checks is None else checks
        copied = self._with_description(other)
        return copied.with_checks(tested) if tested else copied

    def _with_description(self, other: M) -> M:
        """Return another model with the origin of this one, and what its records are."""
        copied = other.with_origin(weakest((other.origin, self.origin)))
        return copied.with_records(self.records) if self.records else copied

    def derived(self, other: M, *, alone: bool = True) -> M:
        """Return another law derived from this model, with its description, origin and checks.

        Its checks are this model's, computed on first use. ``alone``: the other law
        stands for itself, also where this model stands for a region; its checks then say that the
        estimate is taken for the truth.
        """
        copied = self._with_description(other)
        copied = copy(copied) if copied is other else copied
        copied._set_provenance(source=(self, alone and self._estimate()))
        return copied

    def _estimate(self) -> bool:
        """Return whether the model is an estimate that stands for a region."""
        return self.plausible_region() is not None

    def plausible_region(self) -> "Model | None":
        """Return the confidence region of a fit as a model; None for a model written by hand."""
        return self.provenance.region

    def with_region(self, region: "Model") -> Self:
        """Return the same model, which stands for a region of models (see `stands_for`).

        Two such models are equal: what it stands for is not what it describes.
        """
        return self._with(region=region)

    def point(self) -> "Model":
        """Return the point estimate of a fit as a model; for a model written by hand, itself.

        Its checks say so: nothing about the errors of estimation is tested or accounted for.
        """
        return self

    def valued(self, query: BaseQuery) -> Any:
        """Return a query with the number of each state, if the model has states and it adds up.

        >>> from undertow.models.chains import MarkovChain
        >>> from undertow.queries import Sum
        >>> MarkovChain([[.5, .5], [.5, .5]]).valued(Sum(0, 6)).values
        ((0, 0.0), (1, 1.0))
        """
        rule = self.state_rule()
        return query.valued(self.states, () if rule is None else rule.cuts)

    def state_rule(self) -> StateRule | None:
        """Return how a value becomes a state; None if it is not stated or the members differ."""
        rules = {model.records.state for model in (self, *self.members())} - {None}
        return rules.pop() if len(rules) == 1 else None

    @property
    def origin(self) -> Origin:
        """The origin of the model: written by hand, or fitted to public or private records."""
        return self.provenance.origin

    def with_origin(self, origin: Origin) -> Self:
        """Return the same model of another origin; two such models are equal."""
        return self if check_origin(origin) == self.origin else self._with(origin=origin)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copy and pickle a model with its provenance; a dataclass takes its fields only."""
        reduced = super().__reduce_ex__(protocol)
        if self.provenance is _UNSTATED:
            return reduced
        if self.provenance.source is not None:
            _ = self.checks  # the model it was made of is not copied
        provenance = replace(self.provenance, source=None)
        return _restored, (*reduced[:2], reduced[2], provenance)

    def describe(self) -> str:
        """Return the model in one plain sentence."""
        raise NotImplementedError

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description of the law alone, with a ``kind`` field."""
        raise NotImplementedError

    @classmethod
    def from_law_dict(cls, description: Any) -> "Model":
        """Return the model described by `law_dict`, or refuse the description."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description, as files hold it.

        The law with a ``kind`` field; what its records are, where it comes from, what was tested
        and the region that it stands for, where there is something to say.
        """
        from undertow.models.registry import model_to_dict

        return model_to_dict(self)

    @classmethod
    def from_dict(cls, description: Any) -> Any:
        """Return the model described by `to_dict`, or refuse the description.

        Of a fit the plain model: counts of records are never written.
        """
        from undertow.models.registry import described_model

        return described_model(cls, description)

    def several(self) -> bool:
        """Return whether it stands for several laws, any one of which may be true."""
        return False

    def members(self) -> "list[Model]":
        """Return the single models behind this one: itself, or those of a set."""
        return [self]

    def most_records(self) -> int | None:
        """Return the most records of one person; None if the model does not bound them."""
        return self.length

    def dependent_records(self) -> int | None:
        """Return the most records that depend on each other, None if there is no bound."""
        return self.length

    def endless(self) -> "Model | None":
        """Return the model for series of any length, None if there is none."""
        return None

    def first_order(self) -> "MarkovChain | None":
        """Return the chain of order one with the same pairs of neighbours, of a longer memory."""
        return None

    def every_nth(self, step: int) -> "Model":
        """Return the law of every ``step``-th record, if it is a model of the same kind."""
        raise NotSupported(
            f"the records that are left of a {type(self).__name__} when only every nth is taken "
            "follow no model of that kind; fit one to records at the longer step, or take a "
            "MarkovChain of order one with a stationary start"
        )

    def examples(self, query: BaseQuery) -> "Sequence[Model]":
        """Return laws of the class from which data can be drawn for a query; () if none."""
        return ()

    def lowered(self) -> "LoweredLaw | None":
        """Return the law as a hidden Markov chain with its kernels; None if it is not one."""
        return None

    def score(self, data: Any) -> float:
        """Return the mean of -log2 Pr[record | records before it], in bits a record.

        Data as for `MarkovChain.fit`. Every unbroken series starts cold, in the law of its first
        record; the phase of a public cycle is that of the clock of the data, where it has one and
        the cycle is a day or a week, else every series begins at the first label.

        >>> from undertow.models.chains import MarkovChain
        >>> MarkovChain([[.5, .5], [.25, .75]]).score([1, 1, 0, 0])
        1.0
        """
        from undertow.models.fitting.scores import score

        return score(self, data)

    def unproved(self) -> str:
        """Return advice for queries without an upper end of the leakage; "" if none is needed."""
        return ""

    def reach(self) -> str:
        """Return how far back a record looks, as "each record depends on ..."; "" if unordered."""
        return ""

    def disclaimers(self) -> tuple[str, ...]:
        """Return what a guarantee under the model does not cover, as assumptions to print."""
        return ()

    def order(self) -> tuple[Any, ...]:
        """Return the record names of `examples` in the model's own order; () if they agree."""
        return ()

    def index(self, state: State) -> int:
        """Return the number of a state; 1, True and 1.0 are told apart by their types.

        >>> from undertow.models.chains import MarkovChain
        >>> MarkovChain([[.5, .5], [.5, .5]], states=("a", "b")).index("b")
        1
        """
        try:
            hash(state)
        except TypeError as error:
            raise UnknownState(f"a state is a name or a number, found {shown(state)}") from error
        for place, name in enumerate(self.states):
            if name == state and type(name) is type(state):
                return place
        if state in self.states:
            return self.states.index(state)
        names = ", ".join(map(repr, self.states[:12]))
        raise UnknownState(f"the model has no state {state!r}; its states are {names}")


def _restored(
    make: Callable[..., Model], arguments: tuple[Any, ...], state: Any, provenance: Provenance
) -> Model:
    """Return a copied model with its provenance."""
    model = make(*arguments)
    restore = getattr(model, "__setstate__", None)  # of dataclasses with slots
    if restore is not None:
        restore(state)
    else:  # attributes, or a pair of attributes and slots
        for part in state if isinstance(state, tuple) else (state,):
            for name, value in (part or {}).items():
                object.__setattr__(model, name, value)
    object.__setattr__(model, "_provenance", provenance)
    return model


def stands_for(model: Model) -> Model:
    """Return the model that guarantees are given for.

    A fit of order one stands for its confidence region (0.95 unless another confidence is given); a
    set for what its members stand for; all other models for themselves.

    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True)
    >>> stands_for(chain).kind, stands_for(chain.point()).kind
    ('box', 'markov-chain')
    """
    region = model.plausible_region()
    if region is None:
        return model
    sentence = "; ".join(dict.fromkeys(region.disclaimers()))
    return model.passed_on(region, mark_accounted(model.checks, "sample", sentence))


@contextmanager
def advise_point(model: Model) -> Iterator[None]:
    """Add the advice to use `Model.point` to a refusal that concerns the region of a fit.

    >>> from undertow.models.chains import MarkovChain
    >>> with advise_point(MarkovChain.from_counts([[90, 10], [9, 21]], public=True)):
    ...     raise NotSupported("no proof")
    Traceback (most recent call last):
    undertow.errors.NotSupported: no proof; this is a fit, which stands for its confidence region: \
its point() takes the estimate for the truth, and the promise says so
    """
    try:
        yield
    except NotSupported as reason:
        plain = type(reason) in (NotSupported, MethodRefused)  # others have parts of their own
        if not plain or stands_for(model) is model:
            raise
        raise type(reason)(
            f"{reason}; this is a fit, which stands for its confidence region: its point() takes "
            "the estimate for the truth, and the promise says so"
        ) from reason
