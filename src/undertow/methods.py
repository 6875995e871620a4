"""The registry of methods: one entry for each way to turn a guarantee into a randomisation.

`calibrate`, `compare`, plan files, the command line, figures, reports and the table of the
documentation read these entries. A new method is an entry here and the solver that it names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import InvalidInput, MethodRefused

if TYPE_CHECKING:
    from undertow.adversaries import Against
    from undertow.certificate import ValidFor
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.planning.questions import Question, Solver
    from undertow.queries import Task

__all__ = ["BEST", "METHODS", "Method", "Scope", "find_method", "is_certified", "method_names"]

BEST = "best"
"""The name that stands for the certified method with the least error, or that shows most."""

_EVERY = ("chain", "second-order", "gaussian", "network", "groups", "other")

NoiseKind = Literal["laplace", "table", "gaussian", "states"]
"""What a method randomises with: Laplace noise, noise from a table, Gaussian noise, or flips and
erasures of states."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of the proofs of a method.

    Parameters
    ----------
    families
        Families of models.
    protects
        Adversaries; ``any`` includes them all.
    valid_for
        The widest shapes of data; ``any`` includes series shorter than the model's. What a plan
        covers is in its certificate.
    windows, persons
        Whether the history of several records in a row, and all records of a person, can be secret.
    releases
        Whether the proof is about a guarantee, so that several releases are one algorithm.
    """

    families: tuple[str, ...] = ("chain",)
    protects: tuple[Literal["any", "ignorant"], ...] = ("any",)
    valid_for: "ValidFor" = "series"
    windows: bool = False
    persons: bool = False
    releases: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A method of calibration: its solvers by kind of noise, and the scope of its proofs.

    Parameters
    ----------
    summary, citation
        The method in words that follow "rests on", and where its proof is.
    solvers
        The solver for each kind of noise that the method calibrates: a `planning.questions.Solver`,
        or its name in `undertow.planning`, imported when first used; one for all models together,
        or one for each family, with that of ``other`` for the rest.
    scope
        What its proofs are about.
    certified
        Whether it is proved and rounded outwards; others stand as published, and a plan of theirs
        carries the leakage that is certified for its mechanism.
    tight
        Whether its proof is the leakage of this very mechanism: where that is known exactly, no
        other method can do better.
    best
        When ``method="best"`` considers it: ``always``, if this answer on whole series is ``alone``
        (all that is released of them), or ``never``, as where one party must hold the whole series.
    wider
        The method to try at the same noise, because its proof covers more shapes of data.
    subsumed_by
        The method that is never worse where all records and values of one family of models are
        secret; ``best`` leaves this one out once it has a plan of that one.
    anytime
        Whether it has a certified answer, with more noise, where its effort is spent: then the
        effort is limited also where the method is chosen by name.
    quick, effort
        Whether a report may work it out, and the function of a question that estimates how long it
        takes (a name in `undertow.planning`), None where it has an effort limit of its own, or
        takes no time at all.
    """

    name: str
    task: "Task"
    summary: str
    citation: str
    solvers: "Mapping[NoiseKind, str | Solver | Mapping[str, str | Solver]]"
    scope: Scope = Scope()
    certified: bool = True
    tight: bool = False
    best: Literal["always", "alone", "never"] = "always"
    wider: str | None = None
    subsumed_by: str | None = None
    anytime: bool = False
    quick: bool = False
    effort: str | None = None

    @property
    def basis(self) -> str:
        """``certified`` or ``published``."""
        return "certified" if self.certified else "published"

    @property
    def pure(self) -> bool:
        """Whether it randomises without a delta."""
        return any(kind != "gaussian" for kind in self.solvers)

    @property
    def tabulated(self) -> bool:
        """Whether its noise has a table of probabilities."""
        return "table" in self.solvers

    def solver(self, shape: str) -> "str | Solver | Mapping[str, str | Solver] | None":
        """Return the solver for a shape of noise, None if the method has none."""
        if shape != "laplace":
            return self.solvers.get("gaussian")
        kinds: tuple[NoiseKind, ...] = ("laplace", "table", "states")
        return next((self.solvers[kind] for kind in kinds if kind in self.solvers), None)

    def suits(self, model: "AnyModel") -> bool:
        """Return whether the method has a solver for every family in a model."""
        return {member.family for member in model.members()} <= {*self.scope.families}

    def guards(self, against: "Against") -> bool:
        """Return whether the method protects against an adversary (``any`` includes them all)."""
        protects = self.scope.protects
        ignorant = getattr(against, "known", None) == ()  # one target, and nothing else known
        return "any" in protects or ("ignorant" if ignorant else against) in protects

    def accepts(self, question: "Question[Any]") -> bool:
        """Return whether the method may have an answer to a question.

        Whether it has one may depend on numbers, which its solver looks at.
        """
        return self.refusal(question) is None

    def check(self, question: "Question[Any]") -> None:
        """Refuse a question that the method does not accept, naming methods that do."""
        reason = self.refusal(question)
        if reason is not None:
            raise MethodRefused(reason)

    def refusal(self, question: "Question[Any]") -> str | None:
        """Return why the method does not accept a question, None if it does."""
        return next((reason for reason in self._refusals(question) if reason is not None), None)

    def nearness(self, question: "Question[Any]") -> int:
        """Return how many of noise, adversary and secret the method accepts, in that order."""
        refusals = self._refusals(question)[:3]
        return next((place for place, reason in enumerate(refusals) if reason is not None), 3)

    def _refusals(self, question: "Question[Any]") -> tuple[str | None, ...]:
        """Return why the method refuses the noise, the adversary, the secret and the model."""
        return (
            self._noise_refusal(question),
            None if self.guards(question.against) else self._adversary_refusal(question.against),
            self._secret_refusal(question),
            None if self.suits(question.model) else self._model_refusal(question.model),
        )

    def _noise_refusal(self, question: "Question[Any]") -> str | None:
        """Return why the method does not calibrate this noise for that many releases, if so."""
        if question.releases > 1 and not self.scope.releases:
            return (
                f"'{self.name}' is about one answer; {question.releases} releases are accounted by "
                "their guarantees: use method='exchange', 'sweep' or 'closed'"
            )
        if self.solver(question.shape) is not None:
            return None
        if not question.delta:
            return f"'{self.name}' is about Gaussian noise, which needs a delta above 0"
        return (
            f"'{self.name}' knows no {question.shape} noise; use method='closed' for Gaussian "
            "noise, 'exchange' for Laplace noise"
        )

    def _secret_refusal(self, question: "Question[Any]") -> str | None:
        """Return why the method cannot hide the secret, None if it can."""
        window = question.secret.window
        if window > 1 and not self.scope.windows:
            return (
                f"'{self.name}' is about one record, and the history of {window} records in a row "
                "is to be protected; use method='exchange', or 'closed' for Gaussian noise"
            )
        if window > 1 and question.families & {"gaussian", "network"}:
            return (
                f"a window is of records in a row, and those of {question.model.describe()} have "
                "no order; hide one record, or plan with Groups"
            )
        if question.secret.person and not self.scope.persons:
            return (
                f"'{self.name}' is about records of one person, and secret=Person() hides all of "
                "them, whatever they are: leave method out, or say method='group'"
            )
        return None

    def _adversary_refusal(self, against: "Against") -> str:
        from undertow.adversaries import words

        whom = " and ".join(f"'{name}' ({words(name)})" for name in self.scope.protects)
        others = [m.name for m in METHODS[self.task].values() if m.certified and m.guards("any")]
        return (
            f"'{self.name}' protects only against {whom}, not against "
            f"{against if isinstance(against, str) else words(against)!r}; choose "
            f"method='{others[0]}' or '{others[1]}', or say against='ignorant'"
        )

    def _model_refusal(self, model: "AnyModel") -> str:
        others = methods_for(model, self.task)
        instead = f"method='{others[0]}'" if others else "a MarkovChain"
        return f"'{self.name}' has nothing to say about {model.describe()}; use {instead}"


_PAPER = "Section IV of [massny2025]"
_IGNORANT = Scope(protects=("ignorant",))
_ANY_SHAPE = Scope(valid_for="any")

_LISTED = (
    Method("exact", "answer", "the leakage of this very answer", "docs, theory: noisy counts",
           {"laplace": {"chain": "chains.EXACT", "gaussian": "gaussian.EXACT",
                        "network": "networks.EXACT"}, "gaussian": "approximate.EXACT"},
           Scope(("chain", "gaussian", "network"), valid_for="windows"), tight=True,
           wider="exchange"),
    Method("exchange", "answer", "what any algorithm of the same level could leak",
           "docs, theory: exchange rate",
           {"laplace": {"gaussian": "gaussian.EXCHANGE", "network": "networks.EXCHANGE",
                        "other": "chains.EXCHANGE"}},
           Scope(_EVERY, valid_for="any", windows=True, releases=True), anytime=True),
    Method("optimal", "answer", "the least noise of any shape for this very answer",
           "docs, theory: least noise of any shape", {"table": "tables.OPTIMAL"},
           Scope(("chain", "network")), tight=True, best="alone", effort="tables.optimal_effort"),
    Method("closed", "answer", "what any algorithm of the same curve could leak, in closed form",
           "docs, theory: approximate guarantees", {"gaussian": "approximate.CLOSED"},
           Scope(_EVERY, valid_for="any", windows=True, releases=True), quick=True, anytime=True),
    Method("sweep", "answer", "what any algorithm of the same curve could leak on a chain",
           "docs, theory: approximate guarantees", {"gaussian": "approximate.SWEEP"},
           Scope(valid_for="any", releases=True)),
    Method("quilt", "answer", "Markov quilts with exact influences", "Theorem 4.4 of [wang2016]",
           {"laplace": {"chain": "chains.QUILT", "network": "networks.QUILT"}},
           Scope(("chain", "network"), ("any", "ignorant"), "any"), subsumed_by="exchange",
           quick=True, effort="chains.quilt_effort"),
    Method("quilt-approx", "answer",
           "Markov quilts from the least probability and the spectral gap",
           "Lemma 4.7 of [wang2016]", {"laplace": "chains.QUILT_APPROX"},
           Scope(protects=("ignorant",), valid_for="any"), subsumed_by="exchange"),
    Method("wasserstein", "answer", "how far one record can move the answer",
           "Theorem 3.2 of [wang2016]",
           {"laplace": {"chain": "chains.WASSERSTEIN", "network": "networks.WASSERSTEIN"}},
           Scope(("chain", "network"), ("ignorant",)), effort="chains.wasserstein_effort"),
    Method("group", "answer", "any dependence whatever among the records",
           "Theorem 4.2 of [lange2024]", {"laplace": "groups.GROUP"},
           Scope(_EVERY, valid_for="any", windows=True, persons=True, releases=True), quick=True),
    Method("dependent", "answer", "dependence coefficients, confirmed by the leakage",
           "sections VI-A and VI-B of [liu2016], confirmed by the leakage",
           {"laplace": "dependent.DEPENDENT"}, Scope(_EVERY, valid_for="any"),
           subsumed_by="exchange"),
    Method("lange", "answer", "epsilon + 4 ln max P / min P", "Corollary 7.4 of [lange2024]",
           {"laplace": "chains.LANGE"}, _ANY_SHAPE, certified=False, quick=True),
    Method("zhao", "answer", "epsilon + 6 ln of the largest ratio into one state", "[zhao2017]",
           {"laplace": "chains.ZHAO"}, _ANY_SHAPE, certified=False, quick=True),
    Method("zhao-multistep", "answer", "the same over several steps",
           "Proposition 1 of [chakrabarti2022], after [zhao2017]",
           {"laplace": "chains.ZHAO_MULTISTEP"}, _ANY_SHAPE, certified=False),
    Method("influence-curve", "answer", "a(b) epsilon + b with the best b of an influence curve",
           "[bai2026], as far as its abstract says, with the quilts of [wang2016]",
           {"laplace": "chains.INFLUENCE_CURVE"}, Scope(protects=("ignorant",), valid_for="any"),
           certified=False),
    Method("temporal", "answer", "the recursion of temporal privacy leakage",
           "after [cao2017], derived anew", {"laplace": "chains.TEMPORAL"},
           Scope(protects=("ignorant",), valid_for="any"), certified=False),
    Method("gaussian-bound", "answer", "a factor from the largest correlation",
           "Proposition 6.4 of [lange2024]", {"laplace": "gaussian.BOUND"}, Scope(("gaussian",)),
           certified=False),
    Method("exact", "flip", "the leakage of these very flips", "docs, theory: flipped series",
           {"states": "flips.EXACT"}, Scope(("chain", "second-order"), valid_for="any"),
           tight=True),
    Method("exchange", "flip", "what any algorithm of the same level could leak",
           "docs, theory: exchange rate", {"states": "flips.EXCHANGE"},
           Scope(_EVERY, valid_for="any"), subsumed_by="exact", anytime=True),
    Method("xor", "flip", "a noise chain, drawn by one party for the whole series",
           "docs, theory: flipped series", {"states": "flips.XOR"}, _ANY_SHAPE, best="never"),
    Method("chakrabarti", "flip", "flips for an attacker who knows no other record",
           "Theorem 1 of [chakrabarti2022]", {"states": "flips.CHAKRABARTI"}, _ANY_SHAPE,
           certified=False),
    Method("optimal", "redact", "the most that erasures record by record can show",
           "docs, theory: redaction", {"states": "redaction.OPTIMAL"},
           Scope(protects=("any", "ignorant"))),
    Method("mq", "redact", "the narrowest windows, whatever the values",
           "Corollary 2 of [massny2025]", {"states": "redaction.WINDOWS"},
           Scope(protects=("any", "ignorant"))),
    Method("3r-individual", "redact", "three regions, a probability for each record", _PAPER,
           {"states": "redaction.INDIVIDUAL"}, _IGNORANT),
    Method("3r-constant", "redact", "three regions, one probability", _PAPER,
           {"states": "redaction.CONSTANT"}, _IGNORANT),
    Method("3r-relaxed", "redact", "three regions, a convex program", _PAPER,
           {"states": "redaction.RELAXED"}, _IGNORANT),
    Method("mq-printed", "redact", "windows as printed", "Algorithm 1 of [massny2025]",
           {"states": "redaction.PRINTED"}, _IGNORANT, certified=False),
)  # fmt: skip

METHODS: "dict[Task, dict[str, Method]]" = {
    task: {method.name: method for method in _LISTED if method.task == task}
    for task in ("answer", "flip", "redact")
}
"""All methods by task and name, in the order in which tables show them."""


_RESULTS: "dict[Task, str]" = {"answer": "an answer", "flip": "a series", "redact": "a redaction"}


def find_method(task: "Task", name: Any) -> Method:
    """Return the method of a name, or refuse a name that no method of the task has.

    >>> find_method("flip", "xor").best
    'never'
    """
    known = METHODS[task]
    if not isinstance(name, str) or name not in known:
        from undertow.numerics import shown  # the command line reads the registry before NumPy

        raise InvalidInput(
            f"unknown method {shown(name)}; the methods for {_RESULTS[task]} are "
            f"{', '.join((*known, BEST))}"
        )
    return known[name]


def is_certified(plan: "Plan[Any]") -> bool:
    """Return whether a plan was made by a method that is proved; others are as published."""
    method = METHODS[plan.task].get(plan.method)
    return method is None or method.certified


def method_names() -> list[str]:
    """Return every name that a plan can be asked by, ``best`` first.

    >>> method_names()[:3]
    ['best', 'exact', 'exchange']
    """
    return list(dict.fromkeys((BEST, *(name for known in METHODS.values() for name in known))))


def methods_for(model: "AnyModel", task: "Task" = "answer") -> list[str]:
    """Return the names of the methods with a solver for a model.

    >>> from undertow import Groups
    >>> methods_for(Groups(3)), methods_for(Groups(3), "flip")
    (['exchange', 'group', 'dependent'], ['exchange'])
    """
    return [name for name, method in METHODS[task].items() if method.suits(model) and method.pure]
