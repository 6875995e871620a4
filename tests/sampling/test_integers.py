"""Integer noise: what is accepted, what repeats, and its law by enumeration."""

import hashlib
import math
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.sampling.given import given
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.queries import Count, Histogram, Query, Sum
from undertow.sampling import integers
from undertow.sampling.answers import randomise
from undertow.sampling.bits import Insecure, Secure
from undertow.sampling.integers import LARGEST_SCALE, discrete_laplace

WIDE = 1e9  # two secure draws of 8 numbers at this scale agree with a probability below 10^-70


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
    with pytest.raises(InvalidInput, match=r"Secure\(\) or Insecure\(seed\)"):
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


def test_huge_scales_are_refused():
    with pytest.raises(NotSupported, match="too large"):
        discrete_laplace(1.4e19, 400)
    assert len(set(discrete_laplace(LARGEST_SCALE, 400))) == 400


def test_the_smallest_scale_is_a_fraction_too():
    assert discrete_laplace(math.ulp(0.0), 100) == [0] * 100


def test_small_answers_are_drawn_at_any_place():
    """Of 4,000 numbers at scale 1, each of -1, 0, 1 comes in the first and the second half."""
    noise = discrete_laplace(1.0, 4000)
    assert all({-1, 0, 1} <= set(half) for half in (noise[:2000], noise[2000:]))


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


# --- the law, by enumeration ----------------------------------------------------------------------


class Unfinished(Exception):  # noqa: N818  (a run that needs more choices)
    """The next choice of a run, which is not made yet: one of ``limit``, equally likely."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit


def outcomes(scale, least):
    """The probability of each draw, and of runs that are rarer than ``least`` at some choice.

    Runs the sampler on all sequences of its choices, a tree: where a run asks for one more
    number below a limit, it branches into that many runs of equal probability.
    """
    found: Any = Counter()
    runs: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    cut = Fraction(0)
    while runs:
        made, probability = runs.pop()
        if probability < least:
            cut += probability
            continue
        choices = iter(made)

        def below(limit, count, _, choices=choices):
            numbers = []
            for _number in range(count):
                number = 0 if limit == 1 else next(choices, None)
                if number is None:
                    raise Unfinished(limit)
                numbers.append(number)
            return np.array(numbers, dtype=np.uint64)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(integers, "uniform", below)
            try:
                (z,) = integers._laplace(scale, 1, given(b"", b"").first)
                found[z] += probability
            except Unfinished as need:
                runs += [((*made, n), probability / need.limit) for n in range(need.limit)]
    return found, cut


def fits(found, cut, scale):
    """Whether every number's probability lies between what was found and what was cut off."""
    with localcontext() as context:
        context.prec = 50
        ratio = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        for z in range(-6, 7):
            exact = Fraction((1 - ratio) / (1 + ratio) * ratio ** abs(z))
            if not found[z] <= exact <= found[z] + cut:
                return False
    return True


@pytest.mark.parametrize(
    ("scale", "least"),
    [
        pytest.param(Fraction(1), 8_000, id="1"),
        pytest.param(Fraction(2), 30_000, id="2"),
        pytest.param(Fraction(1, 2), 30_000, id="1/2"),
    ],
)
def test_the_decision_tree_has_the_law(scale, least):
    """Exact, by all choices of the sampler; noise of 0.7 or 1.3 times the scale is rejected."""
    found, cut = outcomes(scale, Fraction(1, least))
    assert sum(found.values()) + cut == 1
    assert fits(found, cut, scale)
    assert not fits(found, cut, scale * Fraction(7, 10))
    assert not fits(found, cut, scale * Fraction(13, 10))


@pytest.mark.parametrize("limit", [2, 3, 5, 128, 129, 255, 256])
def test_uniform_numbers_are_equally_many(limit):
    """Of all 256 bytes every number below the limit gets the same, the others are drawn again."""
    seen: Counter[int] = Counter()
    again = 0
    for byte in range(256):
        try:
            (number,) = integers.uniform(limit, 1, given(bytes([byte]), b"").first)
            seen[int(number)] += 1
        except InvalidInput:  # it asked for another byte
            again += 1
    assert set(seen) == set(range(limit))
    assert len(set(seen.values())) == 1
    assert again == 256 - sum(seen.values())


@pytest.mark.parametrize(("limit", "width"), [(1, 0), (2**9, 2), (2**17, 4), (2**50, 8)])
def test_wide_numbers_take_whole_words(limit, width):
    source: Any = given(bytes(range(1, 60)), b"").first
    (number,) = integers.uniform(limit, 1, source)
    assert source.left == 59 - width
    assert number == int.from_bytes(bytes(range(1, width + 1)), "little") % 2 ** (
        (limit - 1).bit_length()
    )


# --- all bits come from the operating system, inside the call -------------------------------------


def faked(monkeypatch, name):
    """Replace the operating system's source by a known one, and return how much was taken."""
    taken: list[int] = []

    def urandom(size):
        block = hashlib.shake_256(f"{name} {len(taken)}".encode()).digest(size)
        taken.append(size)
        return block

    monkeypatch.setattr(os, "urandom", urandom)
    return taken


@pytest.mark.parametrize("scale", [0.3, 3.994794182, 1e9, LARGEST_SCALE])
def test_noise_is_a_function_of_the_bits_of_its_own_call(monkeypatch, scale):
    """The same bits, the same noise; whatever was drawn before: there is no other source."""

    def drawn(name, before=0):
        with monkeypatch.context() as patched:
            if before:
                discrete_laplace(scale, before)
            taken = faked(patched, name)
            return discrete_laplace(scale, 40), sum(taken)

    first = drawn("a")
    assert first[1] > 40
    assert drawn("a", before=7) == first
    assert drawn("b")[0] != first[0]


def test_opendp_draws_nothing():
    probe = (
        "import sys\nfrom undertow.sampling.integers import discrete_laplace\n"
        "discrete_laplace(4.0, 3)\nassert 'opendp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", probe], check=True, timeout=60)
