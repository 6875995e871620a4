"""The inverse question: the DP budget for a wanted leakage."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar, overload

from undertow import progress
from undertow.adversaries import Against, check_against
from undertow.bounds.curves.leakages import largest_parameter, pure_budget_delta
from undertow.bounds.engine import at_most, leakage, whole_secret
from undertow.bounds.levels.exchange import scout
from undertow.bounds.levels.replay import replay_pure_dp
from undertow.bounds.levels.sweep import closed_budget
from undertow.bounds.memory.envelopes import regime_guide, regime_kernel
from undertow.bounds.memory.two_states import pattern_guide
from undertow.certificate import Leakage, Witness
from undertow.curves import ConcentratedCurve, GaussianCurve, check_delta
from undertow.errors import EffortSpent, EffortWarning, InvalidInput, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.base import Model, stands_for
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.hidden import HiddenChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon, up
from undertow.planning.acceptance import LITTLE, Trial, admit, price_level
from undertow.secrets import Secret

__all__ = [
    "BRACKETS",
    "PRECISE",
    "Budget",
    "Guide",
    "ReplayGuide",
    "Search",
    "aim",
    "budget_for",
    "dp_budget",
    "guide_for",
    "largest_level",
    "level_leakage",
    "level_trial",
    "search_for",
    "upper_end_only",
]


_SPENT = (
    "the search for the largest level ended with its effort spent: the level returned is proved, a "
    "larger one may be; effort=10 allows ten times as much, effort=math.inf searches to the end"
)


@dataclass(frozen=True, slots=True)
class Search:
    """Search for a level: the relative width at which to stop, and where to begin.

    The level returned is a proved one at any width; a wider search only finds less of it.
    """

    precision: float
    guess: float | None = None


PRECISE = Search(4e-11)
"""The search behind every plan."""

HEADROOM = 2.0**-40
"""Share of a guarantee that calibration leaves unspent (lower side). A plan is proved again
wherever it is used, without any tolerance, and another machine's logarithms and matrix products
differ in their last digits, by some 1e-13."""


def aim(limit: float) -> float:
    """Return what noise is calibrated for, so that its proof for ``limit`` holds everywhere.

    >>> aim(1.0) < 1.0
    True
    """
    return limit * (1 - HEADROOM)


BRACKETS = 1e-4
"""The same share on chains of order two and hidden chains, and the relative precision of levels
there: their bounds are brackets, whose last digits depend on how boxes fall into cells."""


CELLS = 1e-3
"""The same share where bounds come from cells of messages: the last digits of another machine may
raise other cells, each by a ten thousandth."""


class Guide(Protocol):
    """Attacks whose leakage is cheap to evaluate at any level: lower ends, which prove nothing."""

    bracketed: ClassVar[bool]
    """Whether bounds on the model are brackets, which close to a share of `BRACKETS` only."""

    def attains(self, level: float, /) -> float:
        """Return the largest leakage of the attacks at a level."""
        ...

    def focus(self, level: float, /) -> None:
        """Search for the worst attacks at a level."""
        ...

    def learn(self, witness: Witness, /) -> bool:
        """Add the attack of a witness, and return whether it is a new one."""
        ...


LONGEST_REPLAY = 2000
"""Most records of a witness that is evaluated at other levels (cost)."""

FARTHEST = 0.1
"""Largest share of a limit by which upper ends may exceed what a guide attains, to be foretold by
it: beyond, the guide has missed the worst attack."""


@dataclass(slots=True)
class ReplayGuide:
    """The attacks behind the leakages of one search, evaluated at other levels.

    Neighbouring levels mostly share their worst attack, so that one leakage tells where the next
    one must be proved.
    """

    replay: Callable[[Witness, float], float]
    witnesses: list[Witness] = field(default_factory=list)
    bracketed: ClassVar[bool] = False

    def attains(self, level: float) -> float:
        """Return the largest leakage of the attacks at a level, 0 if there is none."""
        return max((self.replay(witness, level) for witness in self.witnesses), default=0.0)

    def focus(self, level: float) -> None:
        """Keep the attacks: only leakages find new ones."""

    def learn(self, witness: Witness) -> bool:
        """Add the attack of a witness, and return whether it is a new one."""
        if len(witness.sets) > LONGEST_REPLAY or witness in self.witnesses:
            return False
        self.witnesses.append(witness)
        return True


@dataclass(frozen=True, slots=True)
class Budget:
    """DP parameters at which no record leaks more than a limit at a delta.

    Any one of these will do, for one replaced record: (``epsilon``, ``delta``)-DP, ``rho``-zCDP,
    ``mu``-GDP; Gaussian noise of standard deviation ``sigma`` for each unit by which a record
    moves an answer (in l2). All rounded to the safe side.
    """

    epsilon: float
    delta: float
    rho: float
    mu: float

    @property
    def sigma(self) -> float:
        """The standard deviation of Gaussian noise on an answer of sensitivity 1, rounded up."""
        return up(1 / self.mu)

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-ready description."""
        names = ("epsilon", "delta", "rho", "mu", "sigma")
        return {name: getattr(self, name) for name in names}


@overload
def dp_budget(
    model: AnyModel, limit: float = ..., against: Against = ..., secret: Secret | None = ..., *,
    effort: float = ..., accept: Sequence[str] = ...,
) -> float: ...  # fmt: skip
@overload
def dp_budget(
    model: AnyModel, limit: float = ..., against: Against = ..., secret: Secret | None = ..., *,
    delta: float, effort: float = ..., accept: Sequence[str] = ...,
) -> float | Budget: ...  # fmt: skip
def dp_budget(
    model: AnyModel, limit: float = 1.0, against: Against = "any", secret: Secret | None = None,
    delta: float = 0.0, *, effort: float = 1.0, accept: Sequence[str] = (),
) -> float | Budget:  # fmt: skip
    """Return the largest DP level whose leakage is certainly at most ``limit``.

    The inverse of ``leakage(PureDP(level), model)``: spend this much with any epsilon-DP library,
    and no record leaks more than ``limit``. On a model that has states this holds for algorithms
    that read the states alone: of readings within a state the model says nothing. Rounded down.
    ``inf`` if nothing can leak. With a ``delta`` above 0 a `Budget`: the (epsilon, delta), rho and
    mu to ask for, by the closed exchange (Theorem 1 of the theory of approximate guarantees).
    ``effort`` is how much work the search may take, counted, as a multiple of the default
    (`leakage`): one that ends early returns a level that is proved but may be smaller than need be,
    with an `EffortWarning`. ``secret`` is what is to leak no more: one record by default, or a
    `Window` or a `Person`. ``accept`` names the failed checks of a fitted model that are taken upon
    oneself, as in `calibrate`: the level holds if the model is true all the same.

    >>> from undertow import MarkovChain, Window, dp_budget
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(dp_budget(chain, limit=1.0), 4)
    0.2503
    >>> round(dp_budget(chain, limit=1.0, secret=Window(12)), 4)
    0.0673
    >>> budget = dp_budget(chain, limit=1.0, delta=1e-6)
    >>> round(budget.epsilon, 8), round(budget.delta * 1e7, 8), round(budget.sigma, 4)
    (0.25032579, 1.65539669, 16.9133)
    """
    _check_model(model)
    admit(model, accept, lambda: level_trial(model, limit, against, delta, secret))
    return budget_for(model, limit, against, secret, delta=delta, effort=effort)


@overload
def budget_for(
    model: AnyModel, limit: float, against: Against = ..., secret: Secret | None = ..., *,
    effort: float = ...,
) -> float: ...  # fmt: skip
@overload
def budget_for(
    model: AnyModel, limit: float, against: Against = ..., secret: Secret | None = ..., *,
    delta: float, effort: float = ...,
) -> float | Budget: ...  # fmt: skip
def budget_for(
    model: AnyModel, limit: float, against: Against = "any", secret: Secret | None = None, *,
    delta: float = 0.0, effort: float = 1.0,
) -> float | Budget:  # fmt: skip
    """Return what `dp_budget` does, whether or not the model passed its checks.

    For what shows or compares levels, and for accounts and plans that asked about the checks.

    >>> from undertow import Groups
    >>> round(budget_for(Groups(2), limit=1.0), 6)
    0.5
    """
    _check_model(model)
    limit, against = check_epsilon(limit, "limit"), check_against(against)
    delta, hidden = check_delta(delta), whole_secret(secret)
    model = stands_for(model)
    unfinished, alone = False, not progress.granted()

    def measure(level: float) -> Leakage:
        nonlocal unfinished
        leak = level_leakage(level, model, against, hidden)
        unfinished = unfinished or leak.unfinished
        return leak

    if hidden.person and delta:
        raise NotSupported(
            "what is revealed about all records of a person at a delta is not bounded here: ask "
            "the library for an (epsilon, delta) guarantee for whole persons, which is what it "
            "leaks"
        )
    with progress.granting(progress.check_effort(effort)):
        guide = None if hidden.person else guide_for(model, against, hidden.window)
        level = largest_level(measure, model, limit, search_for(limit, hidden.window), guide)
    if unfinished and alone:  # else the plan says so
        warnings.warn(_SPENT, EffortWarning, stacklevel=4)
    if not delta:
        return level
    if math.isinf(level):
        return Budget(level, delta, level, level)
    small = pure_budget_delta(limit, delta, level)
    if not small > 0:
        raise NotSupported(f"no delta is left for a limit of {limit:g}; lower the limit")
    rho, mu = (
        largest_parameter(curve, level, small) for curve in (ConcentratedCurve, GaussianCurve)
    )
    return Budget(level, small, rho, mu)


def _check_model(model: object) -> None:
    """Refuse what is no model."""
    if not isinstance(model, Model):
        raise InvalidInput(
            "the first argument must be a model such as MarkovChain(...), found "
            f"{type(model).__name__}"
        )


def level_trial(
    model: AnyModel, limit: float, against: Against, delta: float, secret: Secret | None
) -> Trial:
    """Return the level that a model allows, found with little effort."""
    budget = budget_for(model, limit, against, secret, delta=delta, effort=LITTLE)
    level, hidden = budget if isinstance(budget, float) else budget.epsilon, whole_secret(secret)
    return Trial(
        lambda check: price_level(check, level, against, hidden),
        lambda other: leakage(PureDP(level), other, against, hidden, effort=LITTLE),
    )


def upper_end_only(model: AnyModel) -> bool:
    """Return whether a search uses upper ends alone, because lower ends need their own search.

    True for boxes of more than two states, whose lower end is left to the proof of the plan.
    """
    return isinstance(model, ChainBox) and model.size > 2


def level_leakage(level: float, model: AnyModel, against: Against, secret: Secret) -> Leakage:
    """Return the leakage of all algorithms of a DP level, for a search over levels."""
    if upper_end_only(model) and not secret.person:
        upper = at_most(PureDP(level), model, against, secret)
        return Leakage(0.0, upper, "exchange", against)
    return leakage(PureDP(level), model, against, secret)


def search_for(limit: float, window: int, search: Search = PRECISE) -> Search:
    """Return a search that begins near the level for a window: its records add up.

    >>> search_for(1.0, 1) == PRECISE, search_for(1.0, 8).guess
    (True, 0.1)
    """
    if window == 1 or search.guess is not None:
        return search
    return Search(search.precision, limit / (window + 2))


def guide_for(model: AnyModel, against: Against, window: int) -> Guide | None:
    """Return a guide for the search of a level on this model, None if there is none."""
    if isinstance(model, MarkovChain):
        large = _guided(lambda: scout(model, against, window))
        return large or ReplayGuide(lambda witness, at: replay_pure_dp(witness, model, at))
    if window > 1:
        return None
    return pattern_guide(model, against) or regime_guide(model, against)


def largest_level(
    measure: Callable[[float], Leakage],
    model: AnyModel,
    limit: float,
    search: Search = PRECISE,
    guide: Guide | None = None,
) -> float:
    """Return the largest level (to the search's precision) that provably leaks at most ``limit``.

    ``measure`` gives the leakage of a level; it grows with the level. inf if every level keeps
    below ``limit``; `NotSupported` if no positive level does.

    Secant steps in log-log coordinates, where leakage is nearly straight; close to the end, one
    probe just below and one just above the estimate close the bracket. With a ``guide`` each step
    goes to where its attacks cross the limit, and a level at which they exceed it is not measured.
    Once the effort is spent, leakages are bounds that need no search: no guide describes these,
    and the last digits of their crossing are not worth having.
    """
    share = BRACKETS if (guide is not None and guide.bracketed) or _mixed(model) else 0.0
    share = CELLS if guide is None and _in_cells(model) else share
    if share:
        limit, search = limit * (1 - share), replace(search, precision=share)
    good: float | None = None
    bad = math.inf
    trail: list[tuple[float, float]] = []
    level = search.guess or 0.0  # else the closed form, or a third of the limit
    if not level and isinstance(model, MarkovChain):
        level = closed_budget(model, limit) or 0.0
    level = level or limit / 3
    if guide is not None:
        start = _guided(partial(_focused, guide, level, limit, search.precision))
        guide, level = (None, level) if start is None else (guide, start)
    excess = 0.0  # of the proved upper end over what the guide attains
    for turn in range(200):
        progress.doing("levels tried", turn)
        attained = None if guide is None else _guided(partial(guide.attains, level))
        if attained is None:
            guide, attained, excess = None, 0.0, 0.0
        proved, upper, news = False, attained + excess, False
        if upper <= limit:
            try:
                leak = measure(level)
            except EffortSpent:
                if good is None:
                    raise
                return good
            if leak.unfinished and search.precision < BRACKETS:
                limit, search = limit * (1 - BRACKETS), replace(search, precision=BRACKETS)
            proved, upper = leak.proves(limit), leak.upper
            if math.isinf(upper) and model.unproved():
                raise NotSupported(model.unproved())
            if guide is not None and leak.witness is not None:
                news = (not proved or not guide.bracketed) and guide.learn(leak.witness)
                attained = _guided(partial(guide.attains, level)) or 0.0 if news else attained
                excess = max(upper - attained, 0.0)
                excess = excess if excess <= FARTHEST * limit else 0.0
        if proved:
            good = level if good is None else max(good, level)
        else:
            bad = min(bad, level)
        if 0 < upper < math.inf:
            trail.append((math.log(level), math.log(upper) - math.log(limit)))
        if good is None and level < 1e-9 * limit:
            break
        if math.isinf(bad) and level > 1e6 * max(1.0, limit):
            return math.inf
        low = good or 0.0
        if low and bad / low - 1 <= search.precision:
            break
        level = _next_level(trail, low, bad, level, search.precision)
        if guide is not None and news and excess < limit:
            start = _guided(partial(_crossing, guide, level, limit - excess, search.precision))
            level = start if start is not None and low < start < bad else level
    if good is None:
        if search.precision >= BRACKETS and not progress.left():
            raise EffortSpent(
                f"no DP level was proved to leak at most {limit:g} within the effort allowed; "
                "effort=10 allows ten times as much, effort=math.inf any"
            )
        raise NotSupported(
            f"no DP level keeps the leakage below {limit:g} on this model ({model.describe()}): "
            "one record determines unboundedly many others; give the chain a length, or use "
            "person-level privacy"
        )
    return good


R = TypeVar("R")


def _guided(work: Callable[[], R]) -> R | None:
    """Return the result of a guide within a quarter of the effort left, None beyond it."""
    try:
        with progress.allowing(progress.left() / 4):
            return work()
    except EffortSpent:
        return None


def _focused(guide: Guide, level: float, limit: float, precision: float) -> float:
    """Return the level at which the worst attacks of a guide cross a limit."""
    level = _crossing(guide, level, limit, 0.1)
    guide.focus(level)
    return _crossing(guide, level, limit, precision)


def _mixed(model: AnyModel) -> bool:
    """Return whether chains with brackets are among several models, which are wider."""
    members = model.members()
    kinds = {"second-order-chain", "hidden-chain"}
    return len(members) > 1 and any(each.kind in kinds for each in members)


def _in_cells(model: AnyModel) -> bool:
    """Return whether bounds of a member come from cells of messages."""
    return any(map(_cellular, model.members()))


def _cellular(model: AnyModel) -> bool:
    """Return whether a model has hidden states, positive transitions and no sharper bounds."""
    law = model.lowered()
    if law is None or law.plain or not (law.kernels > 0).all():
        return False
    return not isinstance(model, HiddenChain) or regime_kernel(model) is None


def _crossing(guide: Guide, level: float, limit: float, precision: float) -> float:
    """Return a level just below that at which the attacks of a guide attain ``limit``."""
    trail: list[tuple[float, float]] = []
    for _ in range(60):
        reached = guide.attains(level)
        if not 0 < reached < math.inf:
            return level
        trail.append((math.log(level), math.log(reached) - math.log(limit)))
        (x, y), slope = trail[-1], 1.0
        if abs(y) < precision / 8 or level < 1e-9 * limit or level > 1e6 * max(1.0, limit):
            break
        if len(trail) > 1 and trail[-2][0] != x:
            slope = (y - trail[-2][1]) / (x - trail[-2][0])
        step = -y / slope if 0.1 < slope < 10 else -y
        level = math.exp(x + max(-3.0, min(3.0, step)))
    return level * (1 - precision / 4)


def _next_level(
    trail: list[tuple[float, float]], low: float, high: float, level: float, precision: float
) -> float:
    """Return the next level to try, strictly between a proved ``low`` and an unproved ``high``."""
    if not trail:  # only leakages of 0 or inf so far
        return level * 4 if low else level / 4
    x, y = trail[-1]
    slope = 1.0
    if len(trail) > 1 and trail[-2][0] != x:
        slope = (y - trail[-2][1]) / (x - trail[-2][0])
    step = -y / slope if 0.1 < slope < 10 else -y
    estimate = x + max(-3.0, min(3.0, step))
    if abs(step) < max(1e-5, precision / 4):  # almost there: step aside to close the bracket
        aside = 0.35 * precision
        estimate += -aside if math.log(low or 1e-300) < estimate - 2 * aside else aside
    trial = math.exp(estimate)
    if low < trial < high:
        return trial
    if not low:
        return high / 2
    return math.sqrt(low * high) if high < math.inf else low * 4
