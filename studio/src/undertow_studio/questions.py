"""The question of a form: query, secret, adversary and limit, as Python and as command options."""

import shlex
from dataclasses import dataclass, replace
from typing import Any, Literal

from starlette.datastructures import FormData

from undertow import Adversary, Count, Histogram, Mean, Person, Plan, Redacted, Series, Sum, Window
from undertow.adversaries import Against
from undertow.errors import InvalidInput
from undertow.models.fitting.checks import SAME_RECORDS, failed
from undertow.models.registry import model_from_dict
from undertow.models.sets import AnyModel
from undertow.queries import State
from undertow_studio.tables import python_text

__all__ = ["KINDS", "Question", "kinds_for", "plan_question", "question_of", "usual"]

Kind = Literal["count", "histogram", "sum", "mean", "series", "redacted"]

KINDS: dict[str, tuple[str, str]] = {
    "count": ("Count of a state", "one number, with noise"),
    "histogram": ("Histogram of the states", "one number for every state, with noise"),
    "mean": ("Mean of the records", "one number, with noise"),
    "sum": ("Sum of the records", "one number, with noise"),
    "series": ("Randomized series", "every record, some of them changed at random"),
    "redacted": ("Redacted series", "the records, erased where they reveal too much"),
}
"""What can be released: in words, and what that gives."""


@dataclass(frozen=True, slots=True)
class Question:
    """The question of a form: query, secret, adversary and limit on leakage.

    >>> question = Question("count", ("active",), limit=1.0, against="ignorant")
    >>> print(question.options())
    --count active --limit 1 --against ignorant
    >>> print(question.python())
    plan = ut.calibrate(ut.Count("active"), model, limit=1.0, against="ignorant")
    """

    kind: Kind = "count"
    states: tuple[State, ...] = ()
    low: float = 0.0
    high: float = 1.0
    values: tuple[tuple[State, float], ...] | None = None
    unit: Literal["record", "window", "person"] = "record"
    window: str = ""
    every: str = ""
    against: Literal["any", "ignorant", "informed", "these"] = "any"
    target: int = 0
    known: tuple[int, ...] = ()
    protect: int = 0
    length: int | None = None
    limit: float = 1.0
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no plan could be made for."""
        if not 0 < self.limit <= 100:
            raise InvalidInput("the limit on leakage must be above 0, and at most 100")
        if self.kind == "count" and not self.states:
            raise InvalidInput("choose the state to count")
        if self.kind in ("sum", "mean") and not self.low < self.high:
            raise InvalidInput("the lowest value must be below the highest")
        if self.local and self.unit != "record":
            raise InvalidInput("a whole series hides single records; choose one record")
        self.secret()

    @property
    def local(self) -> bool:
        """Whether the series itself is released, record by record."""
        return self.kind in ("series", "redacted")

    def query(self, model: AnyModel) -> Any:
        """Return the library's question."""
        match self.kind:
            case "count":
                return Count(self.states[0] if len(self.states) == 1 else self.states)
            case "histogram":
                return Histogram()
            case "sum":
                return Sum(self.low, self.high, self.values)
            case "mean":
                return Mean(self.low, self.high, self.values)
            case "series":
                return Series()
        return Redacted(protect=self.protect, length=self.length or model.length)

    def model(self, model: AnyModel) -> AnyModel:
        """Return the model with the length that a redacted series needs, as commands have it."""
        if self.kind != "redacted" or self.length is None or model.length is not None:
            return model
        described = model.to_dict() | {"length": self.length}
        if "region" in described:
            described["region"] = described["region"] | {"length": self.length}
        return model_from_dict(described)

    def attacker(self) -> Against:
        """Return the adversary."""
        return Adversary(self.target, self.known) if self.against == "these" else self.against

    def secret(self) -> Window | Person | None:
        """Return the window or the person that is hidden, None for one record."""
        if self.unit == "person":
            return Person()
        if self.unit != "window":
            return None
        if not self.window:
            raise InvalidInput("say how long the window is: a number of records, or 1h")
        if self.window.isascii() and self.window.isdigit():
            return Window(int(self.window))
        if not self.every:
            raise InvalidInput("a window of time needs the time between two records, such as 5m")
        return Window(self.window, self.every)

    def arguments(self) -> dict[str, Any]:
        """Return what `calibrate` is told beside query, model and limit, where it is not usual."""
        options: dict[str, Any] = {}
        if self.against != "any":
            options["against"] = self.attacker()
        secret = self.secret()
        if secret is not None:
            options["secret"] = secret
        if self.accept:
            options["accept"] = self.accept
        return options

    def options(self) -> str:
        """Return the options of ``undertow plan`` that ask the same."""
        parts = {
            "count": ["--count", ",".join(map(str, self.states))],
            "histogram": ["--histogram"],
            "sum": ["--sum", f"{self.low:g},{self.high:g}"],
            "mean": ["--mean", f"{self.low:g},{self.high:g}"],
            "series": ["--series"],
            "redacted": ["--redacted", "--protect", str(self.protect)],
        }[self.kind]
        if self.values is not None:
            pairs = (f"{state}={number:.17g}" for state, number in self.values)
            parts += ["--values", ",".join(pairs)]
        parts += ["--limit", f"{self.limit:.17g}"]
        if self.against == "these":
            parts += ["--target", str(self.target)]
            parts += ["--known", ",".join(map(str, self.known))] if self.known else []
        elif self.against != "any":
            parts += ["--against", self.against]
        if self.unit == "person":
            parts += ["--secret", "person"]
        if self.unit == "window":
            parts += ["--secret", self.window]
            parts += [] if self.window.isdigit() else ["--every", self.every]
        if self.accept:
            parts += ["--accept", ",".join(self.accept)]
        return " ".join(map(shlex.quote, parts))

    def python(self) -> str:
        """Return the Python that asks the same of a ``model``."""
        many = ", ".join(map(python_text, self.states))
        ends = f"{self.low!r}, {self.high!r}"
        if self.values is not None:
            pairs = (f"{python_text(state)}: {number!r}" for state, number in self.values)
            ends += f", values={{{', '.join(pairs)}}}"
        query = {
            "count": f"ut.Count({many if len(self.states) == 1 else f'[{many}]'})",
            "histogram": "ut.Histogram()",
            "sum": f"ut.Sum({ends})",
            "mean": f"ut.Mean({ends})",
            "series": "ut.Series()",
            "redacted": f"ut.Redacted(protect={self.protect}, length={self.length})",
        }[self.kind]
        options = "".join(f", {name}={_python(value)}" for name, value in self.arguments().items())
        return f"plan = ut.calibrate({query}, model, limit={self.limit!r}{options})"

    @classmethod
    def of_form(cls, form: FormData, model: AnyModel, usual: "Question") -> "Question":
        """Return the question that a form asks; what it leaves out is as usual."""
        given = {name: str(form[name]).strip() for name in form if name in cls.__slots__}
        fields: dict[str, Any] = {}
        for name, read in _READ.items():
            if given.get(name):
                fields[name] = read(given[name], name)
        named = {str(state): state for state in model.states}
        chosen = map(str, form.getlist("states"))
        fields["states"] = tuple(named[text] for text in chosen if text in named)
        if not model.states and given.get("states"):
            fields["states"] = (given["states"],)
        for name, allowed in _CHOICES.items():
            if name in given:
                if given[name] not in allowed:
                    raise InvalidInput(f"{name} is one of {', '.join(allowed)}")
                fields[name] = given[name]
        offered = [check.name for check in failed(model.checks)]
        offered += [SAME_RECORDS] * (model.records.source is not None)
        ticked = form.getlist("accept")
        fields["accept"] = tuple(name for name in offered if name in ticked)
        known = given.get("known", "").replace(",", " ").split()
        fields["known"] = tuple(_whole(part, "a known record") for part in known)
        for name in ("window", "every"):
            fields[name] = given.get(name, "")
        return replace(usual, **fields)


def kinds_for(model: AnyModel) -> tuple[str, ...]:
    """Return what can be released of records that follow a model."""
    if model.family == "gaussian":
        return "mean", "sum"
    if model.family == "chain":
        return "count", "histogram", "series", "redacted"
    return ("count", "histogram") if model.states else ("count", "sum")


def usual(model: AnyModel, every: str = "") -> Question:
    """Return the question that a form begins with.

    >>> from undertow import MarkovChain
    >>> usual(MarkovChain([[.9, .1], [.2, .8]], states=("idle", "active"))).states
    ('active',)
    """
    kind: Any = kinds_for(model)[0]
    states = model.states[-1:] or ("yes",)
    if model.family == "network":
        states = model.states[:1] if "BB" in model.states else states
    return Question(kind, states, every=every, length=model.length)


def question_of(plan: "Plan[Any]") -> Question:
    """Return the question that a plan answers, as a form would ask it.

    >>> from undertow import Count, MarkovChain, Window, calibrate
    >>> chain = MarkovChain([[.9, .1], [.2, .8]], states=("idle", "active"))
    >>> question_of(calibrate(Count("active"), chain, limit=2.0, secret=Window(3))).options()
    '--count active --limit 2 --secret 3'
    """
    fields: dict[str, Any] = {
        "limit": plan.limit, "length": plan.length, "accept": plan.accepted
    }  # fmt: skip
    window, against = plan.leakage.secret.window, plan.against
    if isinstance(against, Adversary):
        fields |= {"against": "these", "target": against.target, "known": against.known}
    else:
        fields["against"] = against
    if plan.unit == "person" or window > 1:
        fields |= {"unit": "person"} if plan.unit == "person" else {"unit": "window"}
        fields["window"] = str(window) if window > 1 else ""
    match plan.query:
        case Count() as query:
            fields |= {"kind": "count", "states": tuple(query.named)}
        case Histogram():
            fields["kind"] = "histogram"
        case Sum() | Mean() as query:
            fields |= {"kind": query.kind, "low": float(query.lower), "high": float(query.upper)}
            fields["values"] = query.values
        case Series():
            fields["kind"] = "series"
        case Redacted() as query:
            records = plan.leakage.secret.targets or (0,)
            fields |= {"kind": "redacted", "protect": records[0], "length": query.length}
    return replace(usual(plan.model), **fields)


def plan_question(question: Question, model: AnyModel) -> "Plan[Any]":
    """Return the plan with the least noise for a question."""
    from undertow import calibrate

    model = question.model(model)
    plan: Plan[Any] = calibrate(
        question.query(model), model, question.limit, **question.arguments()
    )
    return plan


def _python(value: Any) -> str:
    if isinstance(value, Window):
        return f"ut.Window({value.records})"
    if isinstance(value, Person):
        return "ut.Person()"
    if isinstance(value, Adversary):
        known = f", known={list(value.known)}" if value.known else ""
        return f"ut.Adversary({value.target}{known})"
    return python_text(value)


def _float(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} must be a number, found {text[:40]!r}") from None


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise InvalidInput(f"{name} must be the number of a record, counted from 0")
    return int(text)


_READ: dict[str, Any] = {
    "low": _float, "high": _float, "limit": _float, "target": _whole, "protect": _whole,
    "length": _whole,
}  # fmt: skip
_CHOICES = {
    "kind": tuple(KINDS),
    "unit": ("record", "window", "person"),
    "against": ("any", "ignorant", "informed", "these"),
}
