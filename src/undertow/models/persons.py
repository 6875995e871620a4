"""Whether persons differ: each person's own chain against one for all."""

from dataclasses import dataclass

from undertow.errors import NotSupported
from undertow.models.ratios import Difference, RatioTest, differ
from undertow.models.tallies import Ints, Tally

__all__ = ["HomogeneityTest", "homogeneity_test", "of_persons"]


@dataclass(frozen=True, slots=True)
class HomogeneityTest(RatioTest):
    """Whether one chain describes all persons.

    ``difference`` is the likelihood ratio of one chain for each person against one for all; a small
    ``p_value`` says that persons differ. ``persons`` counts those with a transition.

    >>> HomogeneityTest(9, Difference(8.1, 16, 0.95)).words()
    'no sign that persons differ (p = 0.95)'
    """

    persons: int
    difference: Difference

    def words(self, *, failed: bool | None = None) -> str:
        """Return the outcome in plain words; by itself it fails at a p-value below 0.05."""
        if not self.degrees:
            return "whether persons differ cannot be tested: no state was left by two of them"
        shown = self.difference.shown()
        if not (self.p_value < 0.05 if failed is None else failed):
            return f"no sign that persons differ ({shown})"
        return (
            f"persons differ ({shown}): one chain for all is not each person's chain, and noise "
            "made for it protects some of them less"
        )


def of_persons(tally: Tally | None) -> Ints:
    """Return the transitions of each person (P, k, k), or refuse a fit that kept none."""
    if tally is None or tally.persons is None:
        raise NotSupported(
            "persons are compared by the transitions of each, and this fit has kept none; fit the "
            "records themselves with MarkovChain.fit, with fewer states if there are many persons"
        )
    return tally.persons


def homogeneity_test(tally: Tally | None) -> HomogeneityTest:
    """Return the likelihood-ratio test of one chain for all persons; see `FittedChain`.

    Degrees of freedom: for each state, (persons who left it - 1) (states reached from it - 1).
    Visits count as fixed. Cost as `undertow.models.ratios.differ`.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> sample = [chain.simulate(500, seed=seed) for seed in range(5)]
    >>> MarkovChain.fit(sample, public=True).homogeneity_test().degrees
    8
    """
    counts = of_persons(tally)
    counts = counts[counts.sum(axis=(1, 2)) > 0]  # (P, k, k)
    return HomogeneityTest(len(counts), differ(counts))
