"""The registry of methods: one entry for each way to turn a guarantee into a randomisation.

An entry says what the method is for, whom it protects, by what proof and for which models, and
names its solver, which is imported when it is first asked. `calibrate`, `compare`, plan files, the
command line, figures, reports and the table of the documentation read these entries, and nothing
else knows a method by its name. A new method is an entry here and the solver that it names.
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
    from undertow.planning.questions import Way
    from undertow.queries import Task
    from undertow.secrets import Secret

__all__ = [
    "BEST",
    "METHODS",
    "Method",
    "find_method",
    "is_certified",
    "method_names",
    "methods_for",
]

BEST = "best"
"""The name that stands for the certified method with the least error, or that shows most."""

_EVERY = ("chain", "second-order", "gaussian", "network", "groups", "other")


@dataclass(frozen=True, slots=True)
class Method:
    """A way to keep a guarantee: whom it protects, by what proof, on which models, and how.

    ``certified`` methods are proved and rounded outwards; the others stand as published, and a
    plan of theirs carries the leakage that we certify for its mechanism.

    Parameters
    ----------
    summary, citation
        The method in words that follow "rests on", and where its proof is.
    solver
        A `planning.questions.Way`, or its name in `undertow.planning`, imported when first asked;
        one for all models together, or one for each family, with that of ``other`` for the rest.
    families
        The families of models that it has something to say about.
    protects
        The adversaries that its proof is about; ``any`` includes them all.
    valid_for
        The widest shapes of data that its proofs reach; ``any`` includes series shorter than the
        model's. What a plan covers is in its certificate.
    tight
        Whether its proof is the leakage of this very mechanism: where that is known exactly, no
        other method can do better.
    wider
        The method to try at the same noise, because its proof covers more shapes of data.
    subsumed_by
        The method that is never worse where all records and values of one family of models are
        secret; ``best`` leaves this one out once it has a plan of that one.
    whole
        Whether one party must hold the whole series; ``best`` does not assume that.
    persons, histories
        Whether it can hide all records of a person, and the history of a window of records.
    normal
        The solver for Gaussian noise, None where the method knows Laplace noise only; ``laplace``
        says whether it knows that. At a delta of 0 there is no Gaussian noise.
    composes
        Whether its proof is about a guarantee, so that several releases are one algorithm.
    asked
        Whether it is used only where it is asked for by name, or where one answer on whole series
        is all that is released of them (``valid_for="series"``): ``best`` leaves it out elsewhere.
    tabulated
        Whether its noise has a table of probabilities, where others have Laplace noise.
    early
        Whether it has a certified answer, with more noise, where its effort is spent: then the
        effort is limited also where the method is asked for by name.
    quick, effort
        Whether a report may work it out, and the function of a question that says how long it takes
        (a name in `undertow.planning`), None where it has an effort limit of its own, or takes no
        time at all.
    """

    name: str
    task: "Task"
    summary: str
    citation: str
    solver: "str | Way | Mapping[str, str | Way]"
    families: tuple[str, ...] = ("chain",)
    protects: tuple[Literal["any", "ignorant"], ...] = ("any",)
    certified: bool = True
    valid_for: "ValidFor" = "series"
    tight: bool = False
    wider: str | None = None
    subsumed_by: str | None = None
    whole: bool = False
    persons: bool = False
    histories: bool = False
    early: bool = False
    quick: bool = False
    effort: str | None = None
    normal: "str | None" = None
    laplace: bool = True
    composes: bool = False
    asked: bool = False
    tabulated: bool = False

    @property
    def basis(self) -> str:
        """``certified`` or ``published``."""
        return "certified" if self.certified else "published"

    def knows(self, shape: str, releases: int) -> bool:
        """Return whether the method has something to say about a kind of noise, so many times."""
        known = self.laplace if shape == "laplace" else self.normal is not None
        return known and (releases == 1 or self.composes)

    def suits(self, model: "AnyModel") -> bool:
        """Return whether the method has something to say about every part of a model."""
        return {member.family for member in model.members()} <= {*self.families}

    def guards(self, against: "Against") -> bool:
        """Return whether the method protects against an adversary (``any`` includes them all)."""
        ignorant = getattr(against, "known", None) == ()  # one target, and nothing else known
        return "any" in self.protects or ("ignorant" if ignorant else against) in self.protects

    def admit_secret(self, secret: "Secret") -> None:
        """Refuse a window of records or a person, if the method is about one record alone."""
        if secret.person and not self.persons:
            raise MethodRefused(
                f"'{self.name}' is about records of one person, and secret=Person() hides all of "
                "them, whatever they are: leave method out, or say method='group'"
            )
        if secret.window == 1 or self.histories:
            return
        raise MethodRefused(
            f"'{self.name}' is about one record, and the history of {secret.window} records in a "
            "row is to be protected; use method='exchange', or 'closed' for Gaussian noise"
        )

    def admit(self, against: "Against") -> None:
        """Refuse an adversary that the method does not protect against."""
        if self.guards(against):
            return
        from undertow.adversaries import words

        whom = " and ".join(f"'{name}' ({words(name)})" for name in self.protects)
        others = [m.name for m in METHODS[self.task].values() if m.certified and m.guards("any")]
        raise MethodRefused(
            f"'{self.name}' protects only against {whom}, not against "
            f"{against if isinstance(against, str) else words(against)!r}; choose "
            f"method='{others[0]}' or '{others[1]}', or say against='ignorant'"
        )


_PAPER = "Section IV of [massny2025]"

_LISTED = (
    Method("exact", "answer", "the leakage of this very answer", "docs, theory: noisy counts",
           {"chain": "histograms.EXACT", "gaussian": "gaussian.EXACT", "network": "networks.EXACT"},
           ("chain", "gaussian", "network"), valid_for="windows", tight=True, wider="exchange",
           normal="approximate.EXACT"),
    Method("exchange", "answer", "what any algorithm of the same level could leak",
           "docs, theory: exchange rate",
           {"gaussian": "gaussian.EXCHANGE", "network": "networks.EXCHANGE",
            "other": "chains.EXCHANGE"}, _EVERY, valid_for="any", composes=True, histories=True,
           early=True),
    Method("optimal", "answer", "the least noise of any shape for this very answer",
           "docs, theory: least noise of any shape", "tables.OPTIMAL", ("chain", "network"),
           tight=True, asked=True, tabulated=True, effort="compare.optimal"),
    Method("closed", "answer", "what any algorithm of the same curve could leak, in closed form",
           "docs, theory: approximate guarantees", "approximate.CLOSED", _EVERY, valid_for="any",
           normal="approximate.CLOSED", laplace=False, composes=True, quick=True, histories=True,
           early=True),
    Method("sweep", "answer", "what any algorithm of the same curve could leak on a chain",
           "docs, theory: approximate guarantees", "approximate.SWEEP", valid_for="any",
           normal="approximate.SWEEP", laplace=False, composes=True),
    Method("quilt", "answer", "Markov quilts with exact influences", "Theorem 4.4 of [wang2016]",
           {"chain": "chains.QUILT", "network": "networks.QUILT"}, ("chain", "network"),
           ("any", "ignorant"), valid_for="any", subsumed_by="exchange", quick=True,
           effort="compare.quilt"),
    Method("quilt-approx", "answer",
           "Markov quilts from the least probability and the spectral gap",
           "Lemma 4.7 of [wang2016]", "chains.QUILT_APPROX", protects=("ignorant",),
           valid_for="any", subsumed_by="exchange"),
    Method("wasserstein", "answer", "how far one record can move the answer",
           "Theorem 3.2 of [wang2016]",
           {"chain": "chains.WASSERSTEIN", "network": "networks.WASSERSTEIN"},
           ("chain", "network"), ("ignorant",), effort="compare.wasserstein"),
    Method("group", "answer", "any dependence whatever among the records",
           "Theorem 4.2 of [lange2024]", "groups.GROUP", _EVERY, valid_for="any", persons=True,
           quick=True, composes=True, histories=True),
    Method("dependent", "answer", "dependence coefficients, confirmed by the leakage",
           "sections VI-A and VI-B of [liu2016], confirmed by the leakage",
           "dependent.DEPENDENT", _EVERY, valid_for="any", subsumed_by="exchange"),
    Method("lange", "answer", "epsilon + 4 ln max P / min P", "Corollary 7.4 of [lange2024]",
           "chains.LANGE", certified=False, valid_for="any", quick=True),
    Method("zhao", "answer", "epsilon + 6 ln of the largest ratio into one state", "[zhao2017]",
           "chains.ZHAO", certified=False, valid_for="any", quick=True),
    Method("zhao-multistep", "answer", "the same over several steps",
           "Proposition 1 of [chakrabarti2022], after [zhao2017]", "chains.ZHAO_MULTISTEP",
           certified=False, valid_for="any"),
    Method("influence-curve", "answer", "a(b) epsilon + b with the best b of an influence curve",
           "[bai2026], as far as its abstract says, with the quilts of [wang2016]",
           "chains.INFLUENCE_CURVE", protects=("ignorant",), certified=False, valid_for="any"),
    Method("temporal", "answer", "the recursion of temporal privacy leakage",
           "after [cao2017], derived anew", "chains.TEMPORAL", protects=("ignorant",),
           certified=False, valid_for="any"),
    Method("gaussian-bound", "answer", "a factor from the largest correlation",
           "Proposition 6.4 of [lange2024]", "gaussian.BOUND", ("gaussian",), certified=False),
    Method("exact", "flip", "the leakage of these very flips", "docs, theory: flipped series",
           "flips.EXACT", ("chain", "second-order"), valid_for="any", tight=True),
    Method("exchange", "flip", "what any algorithm of the same level could leak",
           "docs, theory: exchange rate", "flips.EXCHANGE", _EVERY, valid_for="any",
           subsumed_by="exact", early=True),
    Method("xor", "flip", "a noise chain, drawn by one party for the whole series",
           "docs, theory: flipped series", "flips.XOR", valid_for="any", whole=True),
    Method("chakrabarti", "flip", "flips for an attacker who knows no other record",
           "Theorem 1 of [chakrabarti2022]", "flips.CHAKRABARTI", certified=False, valid_for="any"),
    Method("optimal", "redact", "the most that erasures record by record can show",
           "docs, theory: redaction", "redaction.OPTIMAL", protects=("any", "ignorant")),
    Method("mq", "redact", "the narrowest windows, whatever the values",
           "Corollary 2 of [massny2025]", "redaction.WINDOWS", protects=("any", "ignorant")),
    Method("3r-individual", "redact", "three regions, a probability for each record", _PAPER,
           "redaction.INDIVIDUAL", protects=("ignorant",)),
    Method("3r-constant", "redact", "three regions, one probability", _PAPER,
           "redaction.CONSTANT", protects=("ignorant",)),
    Method("3r-relaxed", "redact", "three regions, a convex program", _PAPER,
           "redaction.RELAXED", protects=("ignorant",)),
    Method("mq-printed", "redact", "windows as printed", "Algorithm 1 of [massny2025]",
           "redaction.PRINTED", protects=("ignorant",), certified=False),
)  # fmt: skip

METHODS: "dict[Task, dict[str, Method]]" = {
    task: {method.name: method for method in _LISTED if method.task == task}
    for task in ("answer", "flip", "redact")
}
"""All methods by task and name, in the order in which tables show them."""


_ASKED: "dict[Task, str]" = {"answer": "an answer", "flip": "a series", "redact": "a redaction"}


def find_method(task: "Task", name: Any) -> Method:
    """Return the method of a name, or refuse a name that no method of the task has.

    >>> find_method("flip", "xor").whole
    True
    """
    known = METHODS[task]
    if not isinstance(name, str) or name not in known:
        from undertow.numerics import shown  # the command line reads the registry before NumPy

        raise InvalidInput(
            f"unknown method {shown(name)}; the methods for {_ASKED[task]} are "
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
    """Return the names of the methods that have something to say about a model.

    >>> from undertow import Groups
    >>> methods_for(Groups(3)), methods_for(Groups(3), "flip")
    (['exchange', 'group', 'dependent'], ['exchange'])
    """
    return [
        name for name, method in METHODS[task].items() if method.suits(model) and method.laplace
    ]
