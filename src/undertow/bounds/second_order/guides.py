"""Where a search for a level on a chain of order two should look: what some patterns attain.

A bracket takes seconds, a pattern of known records that is played out takes no time. So a search
goes to where the best patterns cross the limit, and proves only what it finds there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from undertow.adversaries import Against
from undertow.bounds.second_order.bracket import Bracketing, TargetPattern, attack_arrays
from undertow.bounds.second_order.gaps import Tilts
from undertow.bounds.second_order.messages import played
from undertow.bounds.second_order.two_states import LARGEST, Law, MoveBounds, law_of, swapped
from undertow.models.base import Model
from undertow.models.second_order import SecondOrderChain

__all__ = ["PatternGuide", "pattern_guide"]

RatiosOf = Callable[[float], MoveBounds]
"""The log-ratios of a level."""


def _alike(level: float) -> MoveBounds:
    return MoveBounds(level, level)


def pattern_guide(
    model: Model, against: Against, ratios: RatiosOf = _alike, *, words: bool = False
) -> "PatternGuide | None":
    """Return a guide for levels on a chain of order two, None where none is needed or known.

    ``words``: of flips, whose outputs are tried where the worst is not known.
    """
    if not isinstance(model, SecondOrderChain) or model.size != 2 or against != "any":
        return None
    if not (model.transition > 0).all():
        return None
    law = law_of(model) or ("words" if words else None)
    plain = SecondOrderChain(model.transition)
    return None if law is None else PatternGuide(plain, law, ratios)


@dataclass(slots=True)
class PatternGuide:
    """What some patterns of known records attain on a chain of order two: a guide, no proof."""

    chain: SecondOrderChain
    law: Law
    ratios: RatiosOf
    patterns: list[tuple[bool, TargetPattern]] = field(default_factory=list)

    def attains(self, epsilon: float) -> float:
        """Return what the patterns attain at a level."""
        if not self.patterns:
            self.focus(epsilon)
        best = 0.0
        for turned, attack in self.patterns:
            chain, tilts = self._direction(epsilon, turned)
            best = max(best, played(chain, *attack_arrays(attack, tilts)).lower)
        return best

    def focus(self, epsilon: float) -> None:
        """Look for the patterns that are worst at this level, in both directions."""
        self.patterns.clear()
        for turned in (False, True):
            chain, tilts = self._direction(epsilon, turned)
            if tilts.own > 0:
                self.patterns.append((turned, Bracketing(chain, tilts).attack()))

    def learn(self, value: object, other: object) -> bool:
        """Return that two values are no news: both directions are looked at."""
        return False

    def _direction(self, level: float, turned: bool) -> tuple[SecondOrderChain, Tilts]:
        found = self.ratios(level)
        ratios = MoveBounds(min(found.one, LARGEST), min(found.zero, LARGEST))
        if turned:
            return swapped(self.chain), ratios.swapped.tilts(self.law)
        return self.chain, ratios.tilts(self.law)
