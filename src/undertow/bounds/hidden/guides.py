"""Where a search for a level on a hidden chain should look: what some patterns attain.

As in `undertow.bounds.second_order.guides`: a pattern that is played out takes no time, a bracket
takes a second, so that only what a search finds where patterns cross the limit is proved.
"""

from dataclasses import dataclass, field

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.hidden.attacks import SHOWN, PatternSearch, open_attack
from undertow.bounds.hidden.bracket import (
    LARGEST_THETA,
    LEAST_THETA,
    any_bracket,
    pattern_codes,
    regime_kernel,
)
from undertow.models.base import Model
from undertow.models.hidden_chain import HiddenChain

__all__ = ["RegimeGuide", "regime_guide"]

Codes = tuple[int, ...]


def regime_guide(model: Model, against: Against) -> "RegimeGuide | None":
    """Return a guide for levels on a hidden chain that has a bracket, None otherwise.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> regime_guide(chain, "ignorant") is None
    True
    >>> guide = regime_guide(chain, "any")
    >>> guide.focus(1.0)
    >>> 2.88 < guide.attains(1.0) < 2.9
    True
    """
    if not isinstance(model, HiddenChain) or against != "any" or model.hidden == model.size:
        return None
    return None if regime_kernel(model) is None else RegimeGuide(model.endless())


FAR = 4096
"""Records on either side of an attack that knows nothing."""

ELSEWHERE = 1e-3
"""Relative distance of levels at which patterns are looked for anew."""


@dataclass(slots=True)
class RegimeGuide:
    """What some patterns of known records attain on a hidden chain: a guide, no proof.

    First the attack that knows nothing, then the patterns of the brackets at a level.
    """

    chain: HiddenChain
    patterns: list[tuple[int, Codes, Codes]] = field(default_factory=list)
    focused: float = 0.0
    asked: float = 0.0

    def attains(self, epsilon: float) -> float:
        """Return what the patterns attain at a level."""
        self.asked = epsilon
        best = max(open_attack(self._search(state, epsilon), FAR).value for state in (0, 1))
        for state, left, right in self.patterns:
            found = self._search(state, epsilon).played(left, right)
            best = best if found is None else max(best, found.value)
        return best

    def focus(self, epsilon: float) -> None:
        """Look for the patterns that are worst at this level, in both directions."""
        self.patterns.clear()
        self.focused = epsilon
        level = min(max(epsilon, LEAST_THETA), LARGEST_THETA)
        for state in (0, 1):
            found = any_bracket(self.chain, state, level)
            codes = [pattern_codes(side, state, SHOWN) for side in (found.left, found.right)]
            self.patterns.append((state, codes[0], codes[1]))

    def learn(self, value: object, other: object) -> bool:
        """Look again where a level was not proved, unless that was done; return whether it was not.

        The brackets of that level are at hand.
        """
        if abs(self.asked - self.focused) <= ELSEWHERE * self.focused:
            return False
        self.focus(self.asked)
        return True

    def _search(self, state: int, level: float) -> PatternSearch:
        weights = np.exp(level * (self.chain.shown == state))
        return PatternSearch(self.chain, weights, state, 1 - state)
