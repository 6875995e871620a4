"""Integer noise: what is accepted, what repeats, and that forked processes never do."""

import json
import math
import multiprocessing
import subprocess
import sys

import pytest

from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.queries import Count, Histogram, Query, Sum
from undertow.sampling.apply import randomise
from undertow.sampling.bits import Insecure, Secure
from undertow.sampling.integers import discrete_laplace

WIDE = 1e9  # two secure draws of 8 numbers at this scale agree with a chance below 10^-70


@pytest.mark.parametrize("randomness", [None, Secure(), Insecure(5)], ids=str)
@pytest.mark.parametrize("scale", [0.01, 1, 4.0, 12345.678])
def test_noise_is_plain_integers(scale, randomness):
    noise = discrete_laplace(scale, 7, randomness)
    assert isinstance(noise, list)
    assert [type(z) for z in noise] == [int] * 7


@pytest.mark.parametrize("scale", [0, -1.0, math.inf, math.nan, None, "wide"])
def test_bad_scales_are_refused(scale):
    with pytest.raises(InvalidInput, match="noise scale must be"):
        discrete_laplace(scale, 1)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, None])
def test_bad_counts_are_refused(count):
    with pytest.raises(InvalidInput, match="count must be"):
        discrete_laplace(1.0, count)


@pytest.mark.parametrize("randomness", [7, "secure", object(), Secure])
def test_randomness_is_named_explicitly(randomness):
    with pytest.raises(TypeError, match=r"Secure\(\) or Insecure\(seed\)"):
        discrete_laplace(1.0, 1, randomness)


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "1"])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidInput, match="seed must be"):
        Insecure(seed)


def test_a_seed_repeats_and_says_so():
    first = discrete_laplace(WIDE, 8, Insecure(3))
    assert discrete_laplace(WIDE, 8, Insecure(3)) == first
    assert discrete_laplace(WIDE, 8, Insecure(4)) != first
    assert Insecure(3).describe() == "insecure, seed 3"
    assert Secure().describe() == "secure"


def test_secure_noise_never_repeats():
    draws = [tuple(discrete_laplace(WIDE, 8)) for _ in range(50)]
    assert len(set(draws)) == 50
    assert len({z for draw in draws for z in draw}) > 395  # of 400; not one number over and over


def test_tiny_scales_add_nothing():
    assert discrete_laplace(1e-3, 1000) == [0] * 1000  # Pr[Z != 0] is about 2 e^-1000


def test_huge_scales_are_refused_or_exact():
    """At this scale half of the draws lie beyond 2^63; cut off, they would show the answer."""
    try:
        noise = discrete_laplace(1.4e19, 400)
    except (InvalidInput, NotSupported):
        return
    assert max(noise.count(2**63 - 1), noise.count(-(2**63))) <= 1


def test_only_answers_with_a_lattice_are_randomised():
    with pytest.raises(NotSupported, match="no declared lattice"):
        randomise(Laplace(Query(len), 4.0), [3], Secure())
    for noise in (Laplace(Sum(0, 1), 4.0), Laplace(Count("a"), 4.0)):
        assert type(randomise(noise, [3], Secure())[0]) is int
    whole = randomise(Laplace(Count("a"), 50.0), [7], Insecure(1))
    assert whole == randomise(DiscreteLaplace(Count("a"), 50.0), [7], Insecure(1))


def test_noise_is_added_to_each_number_in_order():
    noise = discrete_laplace(50.0, 3, Insecure(1))
    answer = randomise(DiscreteLaplace(Histogram(), 50.0), [10, 2000, 300_000], Insecure(1))
    assert answer == [10 + noise[0], 2000 + noise[1], 300_000 + noise[2]]
    assert len(set(noise)) == 3


# --- forked processes -----------------------------------------------------------------------------

FORK = """
import json, multiprocessing, sys
import numpy as np
from undertow.sampling.integers import discrete_laplace

discrete_laplace(1e9, 4)  # the sampler is ready before the fork
generator = np.random.default_rng()  # a broken twin: made before the fork, copied into each worker

def secure(_):
    return discrete_laplace(1e9, 8)

def copied(_):
    return [int(z) for z in generator.integers(10**9, size=8)]

def streams(work):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=lambda: queue.put(work(0))) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    return found

print(json.dumps([streams(secure) + [secure(0)], streams(copied)]))
"""


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
def test_forked_workers_draw_distinct_streams():
    """Four workers and their parent; a generator made before the fork is caught repeating."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    secure, copied = json.loads(done.stdout)
    assert len({tuple(stream) for stream in secure}) == 5
    assert len({z for stream in secure for z in stream}) == 40
    assert len({tuple(stream) for stream in copied}) == 1
