"""Attackers on flipped series: ``python -m benchmarks.attacks``.

Forward-backward and Viterbi beside hmmlearn in the same run where it can be imported; both are
compiled, and both get the same model and the same outputs. The first call, which compiles or loads
what was compiled before, is not timed. Nothing here asserts a time.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import undertow as ut
from benchmarks.flips import one_core
from benchmarks.rows import Row, beside, grown, show
from undertow.auditing.attackers import answer_posteriors
from undertow.auditing.inference import posteriors, viterbi
from undertow_papers.chakrabarti2022.rates import success_rate

PART = "Attackers"
RECORDS = 1_000_000
PAIR = ut.MarkovChain([[0.9107, 0.0893], [0.1092, 0.8908]])
FLIPS = ut.RandomizedResponse.binary(0.347281, 0.283383)
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]]
)
SPREAD = ut.RandomizedResponse.symmetric(4, 0.4)
NOISE = ut.XorNoise(0.1, 0.3)


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    count = 5_000 if quick else RECORDS
    rng = np.random.default_rng(0)
    two, four = (rng.integers(0, states, count).astype(np.uint8) for states in (2, 4))
    for outputs, channel, chain in ((two, FLIPS, PAIR), (four, SPREAD, FOUR)):
        theirs = hidden_chain(outputs, channel, chain)
        words = f"{chain.size} states, {count:,} records"
        smooth, decode = theirs or (None, None)
        peer = "hmmlearn" if theirs else "hmmlearn: absent"
        yield beside(PART, f"forward-backward, {words}",
                     partial(posteriors, outputs, channel, chain), peer, smooth)  # fmt: skip
        if quick:
            return
        yield beside(PART, f"Viterbi, {words}", partial(viterbi, outputs, channel, chain),
                     peer, decode)  # fmt: skip
    sizes = [count // 100, count // 10, count]
    yield grown(PART, f"forward-backward, up to {count:,} records", sizes,
                lambda n: posteriors(two[:n], FLIPS, PAIR))  # fmt: skip
    yield beside(PART, f"forward-backward, noise that is a chain, {count:,}",
                 lambda: posteriors(two, NOISE, PAIR))  # fmt: skip
    activity = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    laplace = ut.DiscreteLaplace(ut.Count(1), 4.0)
    yield grown(
        PART, "one target of a noisy count of 100 to 3,000", [100, 1000, 3000],
        lambda n: answer_posteriors(0.3 * n, laplace, activity, n, targets=[n // 2]),
    )  # fmt: skip
    yield beside(PART, "exact success rate, 20 records", lambda: success_rate(FLIPS, PAIR, 9, 20))


def hidden_chain(outputs: Any, channel: Any, chain: Any) -> Any:
    """Return hmmlearn's forward-backward and Viterbi on the same outputs, None where absent."""
    try:
        from hmmlearn.hmm import CategoricalHMM  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    model = CategoricalHMM(chain.size)
    model.n_features = chain.size
    model.startprob_, model.transmat_ = chain.initial, chain.transition
    model.emissionprob_ = channel.matrix
    column = outputs[:, None].astype(np.int64)
    return partial(model.predict_proba, column), partial(model.decode, column)


if __name__ == "__main__":
    print(one_core())
    list(show(rows()))
