"""Attackers per second on one core: ``python -m benchmarks.attacks [RECORDS]``.

Forward-backward and Viterbi on a flipped series, beside hmmlearn in the same run where it can be
imported; both are compiled, and both get the same model and the same outputs (ours also checks and
copies them in `posteriors`; the bare loops are shown too). Memory is what a call needs at its peak,
its result included. Each line is the best of a few runs; the first call, which compiles or loads
what was compiled before, is not among them. Nothing here asserts a time.
"""

import math
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import undertow as ut
from benchmarks.__main__ import best_time
from benchmarks.flips import one_core
from undertow.auditing import kernels
from undertow.auditing.counting import answer_posteriors
from undertow.auditing.hidden import observe, read_outputs
from undertow.auditing.posteriors import logs, posteriors
from undertow.auditing.rates import success_rate
from undertow.auditing.viterbi import viterbi

RECORDS = 10_000_000
RUNS = 3
PAIR = ut.MarkovChain([[0.9107, 0.0893], [0.1092, 0.8908]])
FLIPS = ut.RandomizedResponse.binary(0.347281, 0.283383)
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]]
)
SPREAD = ut.RandomizedResponse.symmetric(4, 0.4)
NOISE = ut.XorNoise(0.1, 0.3)


def show(name: str, records: int, call: Callable[[], Any], *, memory: bool = False) -> None:
    """Print how many records a second a call handles, and the memory that it needs."""
    call()
    line = f"{name:<52} {records / best_time(call, RUNS) / 1e6:10.2f} million/s"
    if memory:
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        line += f"   {peak / 2**20:7.1f} MiB at its peak"
    print(line, flush=True)


def loops(outputs: Any) -> None:
    """The bare loops, compiled."""
    seen = observe(read_outputs(outputs, FLIPS, PAIR), FLIPS, PAIR)
    model, count = seen.hidden, len(outputs)
    parts = (model.start, model.steps, model.moving, model.emission)
    out = np.empty((count, 2))
    pair = kernels.compiled(kernels.smooth_pair)
    show("loop: forward-backward, 2 states", count,
         lambda: pair(seen.codes, seen.ends, *parts, out))  # fmt: skip
    wide = kernels.compiled(kernels.smooth)
    show("loop: forward-backward for any number of states, 2", count,
         lambda: wide(seen.codes, seen.ends, *parts, out))  # fmt: skip
    careful = kernels.compiled(kernels.smooth_logs)
    show("loop: forward-backward with logarithms, 2 states", count,
         lambda: careful(seen.codes, seen.ends, *logs(seen), out))  # fmt: skip
    back, path = np.empty((count, 2), np.uint8), np.empty(count, np.uint8)
    decode = kernels.compiled(kernels.decode)
    show("loop: Viterbi, 2 states", count,
         lambda: decode(seen.codes, seen.ends, *logs(seen), back, path))  # fmt: skip


def calls(two: Any, four: Any) -> None:
    """The same as people call them."""
    count = len(two)
    show("posteriors, 2 states", count, lambda: posteriors(two, FLIPS, PAIR), memory=True)
    show("viterbi, 2 states", count, lambda: viterbi(two, FLIPS, PAIR), memory=True)
    show("posteriors, 2 states, 3 records known", count,
         lambda: posteriors(two, FLIPS, PAIR, {3: 0, 700: 1, 701: 1}))  # fmt: skip
    show("posteriors, noise that is a chain", count, lambda: posteriors(two, NOISE, PAIR),
         memory=True)  # fmt: skip
    show("posteriors, 4 states", count, lambda: posteriors(four, SPREAD, FOUR))
    show("viterbi, 4 states", count, lambda: viterbi(four, SPREAD, FOUR))


def peers(two: Any, four: Any) -> None:
    """Print what hmmlearn reaches on the same outputs, and that it finds the same."""
    try:
        from hmmlearn.hmm import CategoricalHMM  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        print(f"{'hmmlearn':<52} absent: {error}")
        return
    for outputs, channel, chain in ((two, FLIPS, PAIR), (four, SPREAD, FOUR)):
        model = CategoricalHMM(chain.size)
        model.n_features = chain.size
        model.startprob_, model.transmat_ = chain.initial, chain.transition
        model.emissionprob_ = channel.matrix
        column = outputs[:, None].astype(np.int64)
        states = f"{chain.size} states"
        found = partial(model.predict_proba, column), partial(model.decode, column)
        show(f"hmmlearn, predict_proba, {states}", len(outputs), found[0])
        show(f"hmmlearn, decode, {states}", len(outputs), found[1])
        apart = np.abs(found[0]() - posteriors(outputs, channel, chain)).max()
        paths = found[1]()[1], viterbi(outputs, channel, chain)
        chances = [log_chance(path, outputs, channel, chain) for path in paths]
        print(f"{'  posteriors apart by at most':<52} {apart:10.1e}")
        print(f"{'  log-likelihood of our path, less theirs':<52} {chances[1] - chances[0]:10.1e}")


def log_chance(path: Any, outputs: Any, channel: Any, chain: Any) -> float:
    """Return the log-likelihood of a path and the outputs; paths may tie."""
    steps, seen = (np.zeros((chain.size, chain.size), dtype=np.int64) for _ in range(2))
    np.add.at(steps, (path[:-1], path[1:]), 1)
    np.add.at(seen, (path, outputs), 1)
    terms = (steps * np.log(chain.transition), seen * np.log(channel.matrix))
    first = float(np.log(chain.initial[path[0]]))
    return math.fsum([first, *terms[0].ravel(), *terms[1].ravel()])


def others() -> None:
    print("answers and rates")
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    noise = ut.DiscreteLaplace(ut.Count(1), 4.0)
    for length in (100, 1000, 5000):
        start = time.perf_counter()
        answer_posteriors(0.3 * length, noise, chain, length, targets=[length // 2])
        took = time.perf_counter() - start
        print(f"{f'one target of a noisy count of {length}':<52} {took * 1000:10.1f} ms")
    start = time.perf_counter()
    success_rate(FLIPS, PAIR, 14, 30)
    took = time.perf_counter() - start
    print(f"{'exact success rate, 30 records':<52} {took * 1000:10.1f} ms")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    print(f"{count:,} records, {one_core()}")
    rng = np.random.default_rng(0)
    two, four = (rng.integers(0, states, count).astype(np.uint8) for states in (2, 4))
    loops(two)
    calls(two, four)
    few = max(count // 10, 1)
    print(f"{few:,} records")
    peers(two[:few], four[:few])
    others()


if __name__ == "__main__":
    main()
