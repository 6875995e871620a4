"""What still fits beside what is spent: the one test of a grant, pure, rounded to the safe side.

A limit (epsilon, delta) became a budget beta and a small delta d0 once: all that is (beta, d0)-DP
leaks at most (epsilon, delta) (Theorem 1 of the theory of approximate guarantees). A record has
spent DP levels that sum to e, GDP of squares that sum to q, zCDP of r, and deltas that sum to s.
Levels alone may reach beta. With noise, let c be the level that levels may reach in all; the record
is within the limit if s + d(beta - c) <= d0, where d is the curve of sqrt(q)-GDP if r is 0, else
that of (r + q/2)-zCDP: mu-GDP is mu^2/2-zCDP.

Whoever asks has seen the answers so far. *Proposition.* Let c, s and the kind of curve be fixed
when the first noise without a level is reserved. Then all releases together are (beta, d0)-DP,
however later amounts depend on answers. *Proof.* Before the first noise the loss is at most e <= c,
but for a probability of s. From then on let L be the loss, e and q what is spent, Q the sum that d
allows, D(m, x) the delta of m-GDP at x. At m^2 = Q - q and x = beta - L - (c - e) it never grows in
expectation: a level e_i lowers c - e by e_i and raises L by at most e_i, and a step of mu-GDP
before m'-GDP is (mu^2 + m'^2)^(1/2)-GDP. It starts at D(Q^(1/2), beta - c) <= d0 - s at most. For
zCDP take the exponential of (a - 1)(L + c - e + a (R - r - q/2)), a the best order, for D. QED

If c were chosen later, between levels and noise by what was seen, it would be false: on the
activity chain at (1, 1e-6), Gaussian noise of mu .01, then a level where the loss came out high and
more noise where not, reaches 1.55 times d0. So c is the level spent when noise began, or what the
terms set aside (``pure``) if that is more; a delta, or zCDP after GDP, is refused from then on, and
giving something back does not change what was fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from undertow.curves import ConcentratedCurve, Curve, GaussianCurve
from undertow.errors import BudgetExceeded, LedgerConflict
from undertow.ledger.amounts import NOTHING, Spend, highest, root_up, round_down, round_up
from undertow.ledger.rules import Entry, Terms
from undertow.numerics import up
from undertow.rounding import above, below

__all__ = ["Room", "SpendCurve", "nothing", "spend_words"]

_NOTHING = 1e-9
"""The part of a budget below which people are told that nothing is left."""

_FAINT = 1e-5
"""The part of a budget below which people are told that no mu is left: nobody wants that noise."""

_AGAIN = Fraction(1, 2**20)
"""Share of the small delta by which a grant of another machine may seem to exceed it when its event
is replayed (upper side): logarithms differ there in the last digits. Nothing is granted by it."""

_LOUD = 30.0
"""A rho beyond which a delta is taken to be 1 (upper side)."""

_MOST = 10.0
"""A mu or rho beyond which nobody asks what is left."""

_FINE = 1e-15
"""Relative width at which the search for what is left ends (lower side)."""


@lru_cache(maxsize=4096)
def _noise_delta(squares: Fraction, rho: Fraction, dense: bool, left: float) -> float:
    """Return the delta at a level of GDP alone, or of zCDP and GDP together, rounded up."""
    if not squares and not rho:
        return 0.0
    both = round_up(rho + squares / 2)
    if both > _LOUD:
        return 1.0
    if rho or dense:
        return ConcentratedCurve(both).delta(left)
    return GaussianCurve(root_up(squares)).delta(left)


def _delta(spend: Spend, left: Fraction) -> Fraction:
    """Return the deltas of a spend, and that of its noise at a level; only the curve is rounded."""
    noise = _noise_delta(spend.squares, spend.rho, spend.dense, round_down(left))
    return max(spend.delta, spend.rare) + Fraction(noise)


@dataclass(frozen=True, slots=True)
class SpendCurve(Curve):
    """All that was released of a record, as one guarantee: delta for each epsilon, rounded up.

    >>> SpendCurve(Spend(Fraction(1, 4), delta=Fraction(1, 8))).delta(.25)
    0.125
    """

    spend: Spend

    def delta(self, epsilon: float) -> float:
        """Return the sum of deltas, and that of the noise at what the levels leave of epsilon."""
        left = Fraction(epsilon) - self.spend.level
        return 1.0 if left < 0 else min(1.0, round_up(_delta(self.spend, left)))

    def corners(self) -> tuple[float, ...]:
        """Return the level of a spend without noise, which is the one where it says something."""
        return () if self.spend.noisy else (round_up(self.spend.level),)


@dataclass(frozen=True, slots=True)
class Room:
    """The terms of an account, and what the most used of some records have spent under them.

    ``spent``: spends of which none covers another (`undertow.ledger.amounts.worst`).

    >>> terms = Terms({}, 1.0, 0.25, "any", "record", delta=1e-6, small=1.65e-7)
    >>> room = Room(terms, (Spend(Fraction(1, 8)),))
    >>> room.left(), round(1 / room.left_mu(), 2)
    (0.125, 32.62)
    """

    terms: Terms
    spent: tuple[Spend, ...] = ()

    def fits(self, more: Spend = NOTHING, *, again: bool = False) -> bool:
        """Return whether all these records may spend more: levels exactly, without slack.

        ``again``: where an event is replayed that was granted once, see `_AGAIN`.
        """
        return all(self._fits(spend, more, again) for spend in self.spent or (NOTHING,))

    def _fits(self, spent: Spend, more: Spend, again: bool) -> bool:
        total, budget = spent + more, Fraction(self.terms.budget)
        if total.pure or total.level > budget:
            return total.level <= budget
        if not self.terms.delta or self._too_late(spent, more):
            return False
        most = self._most(total)
        small = Fraction(self.terms.small) * (1 + (_AGAIN if again else 0))
        return total.level <= most and _delta(total, budget - most) <= small

    def _most(self, spend: Spend) -> Fraction:
        """Return the level that levels may reach in all: c, where there is noise."""
        return max(spend.held, Fraction(self.terms.pure if spend.noisy else self.terms.budget))

    @staticmethod
    def _too_late(spent: Spend, more: Spend) -> bool:
        """Return whether what was fixed when noise began leaves no place for more of a kind."""
        return spent.noisy and bool(more.delta or (more.rho and not spent.dense))

    def after(self, more: Spend) -> "Room":
        """Return the room when more is spent on all these records."""
        return replace(self, spent=tuple(spend + more for spend in self.spent or (NOTHING,)))

    def left(self) -> float:
        """Return a DP level that fits all these records, rounded down."""
        top = round_down(min(self._most(spend) - spend.level for spend in self.spent or (NOTHING,)))
        return self._largest(lambda level: Spend(Fraction(level)), top)

    def left_mu(self) -> float:
        """Return a mu of GDP that fits all these records, rounded down: 1 / sigma of noise."""
        return self._largest(lambda mu: Spend(squares=Fraction(mu) ** 2), _MOST)

    def least_sigma(self) -> float | None:
        """Return the sigma of Gaussian noise, per unit of sensitivity, that fits; None for none."""
        mu = self.left_mu() if self.terms.delta else 0.0
        return up(1 / mu) if mu > _FAINT * self.terms.budget else None

    def left_rho(self) -> float:
        """Return a rho of zCDP that fits all these records, rounded down."""
        return self._largest(lambda rho: Spend(rho=Fraction(rho)), _MOST)

    def _largest(self, spend: Callable[[float], Spend], top: float) -> float:
        """Return the largest number up to ``top`` whose spend fits, by bisection; 0 for none."""
        if not top or self.fits(spend(top)):
            return top
        low, high = 0.0, min(top, self.terms.budget)
        while self.fits(spend(high)):
            low, high = high, 2 * high
        while high - low > _FINE * high and high > _NOTHING * _FINE * self.terms.budget:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if self.fits(spend(middle)) else (low, middle)
        return low

    def check(self, entry: Entry, *, again: bool = False) -> None:
        """Refuse an entry that would bring a record beyond the budget, and say what would not.

        For a redaction, which is the only entry there is, its own leakage must keep the limit.
        """
        wanted = entry.spend
        if wanted is None:
            self._check_redaction(entry)
        elif not wanted.pure and not self.terms.delta:
            raise LedgerConflict(
                f"the release spends {spend_words(wanted)}, which is no DP level: rare outputs of "
                "it tell two values apart, and this account is kept without a delta, which says "
                "how rare may be ignored; give it one with set_limit(limit, delta=1e-6), open an "
                "account with a delta, or release with Laplace noise"
            )
        elif not self.fits(wanted, again=again):
            left = self.left()
            raise BudgetExceeded(self._refusal(entry, wanted, left), left=left)

    def _check_redaction(self, entry: Entry) -> None:
        if self.terms.window > 1:
            raise LedgerConflict(
                f"the account protects the history of {self.terms.window} records in a row, and "
                "what a redaction leaks is known for one record; keep another account for it"
            )
        if entry.leakage is not None and entry.leakage > self.terms.limit:
            raise BudgetExceeded(
                f"the redaction leaks up to {_brief(entry.leakage, above)}, the limit is "
                f"{_brief(self.terms.limit, below)}; plan it for the limit or less, or raise the "
                "limit with set_limit",
                left=0.0,
            )

    def _refusal(self, entry: Entry, wanted: Spend, left: float) -> str:
        terms, spent = self.terms, highest(self.spent)
        limit = _brief(terms.limit, below)
        allows = f"a level of {_brief(terms.budget, below)}"
        used = _brief(round_up(spent.level), above)
        if terms.delta:
            limit += f" at delta {_brief(terms.delta, below)}"
            allows += f" and a delta of {_brief(terms.small, below)} beside it"
            used = spend_words(spent)
        plan = "method='exchange', or 'group' for Gaussian records, and no larger limit"
        if not wanted.pure:
            plan = "method='closed' and no larger limit, for all such releases together,"
        return (
            f"the release needs {spend_words(wanted)} on {entry.scope.words()}, but "
            f"{self._said(left)}: the limit {limit} allows {allows}, of which {used} is spent"
            f"{self._why(wanted)}; release with more noise (a plan with {plan} fits a fresh "
            "account), release other records, or raise the limit with set_limit"
        )

    def _why(self, wanted: Spend) -> str:
        """Return what was fixed when noise began and stands against a spend, in words."""
        begun = [spend for spend in self.spent if spend.noisy]
        if any(self._too_late(spend, wanted) for spend in begun):
            return (
                "; Gaussian noise was accounted there as GDP, and what is fixed by that may not "
                "depend on its answers: enter zCDP and point guarantees before it"
            )
        if wanted.level and any(spend.level + wanted.level > self._most(spend) for spend in begun):
            held = max(round_up(self._most(spend)) for spend in begun)
            return (
                f"; a level of {_brief(held, above)} was set aside when noise without a level "
                "began, and that may not depend on its answers: open an account with pure=LEVEL "
                "to set more aside"
            )
        return ""

    def _said(self, left: float) -> str:
        """Return in words what fits."""
        fits = []
        if not nothing(left, self.terms.budget):
            fits.append(f"a level of at most {_brief(left, below)}")
        sigma = self.least_sigma()
        if sigma is not None:
            fits.append(
                f"Gaussian noise of sigma {above(sigma)} or more per unit that a record moves it"
            )
        return f"{', or '.join(fits)} fits" if fits else "nothing is left"


def spend_words(spend: Spend) -> str:
    """Return a spend for people, every number rounded up.

    >>> spend_words(Spend(Fraction(1, 4))), spend_words(Spend(squares=Fraction(1, 4)))
    ('a DP level of 0.25', 'mu 0.5')
    """
    said = [("mu", spend.mu), ("rho", round_up(spend.rho)), ("delta", round_up(spend.delta))]
    parts = [f"{name} {_brief(number, above)}" for name, number in said if number]
    if spend.level or not parts:
        parts = [f"a DP level of {_brief(round_up(spend.level), above)}", *parts]
    return " and ".join(parts)


def nothing(left: float, budget: float) -> bool:
    """Return whether what is left is, in words, nothing: what rounding leaves over of a budget.

    For words only: whether a release fits is compared exactly.

    >>> nothing(3.6e-16, 0.25), nothing(1e-4, 0.25)
    (True, False)
    """
    return left < _NOTHING * budget


def _brief(value: float, rounded: Callable[[float], str]) -> str:
    """Return a number as it is if that is short, else with few digits, rounded to a side."""
    return repr(value) if len(repr(value)) <= 8 else rounded(value)
