"""Genotypes and contagions: counts against enumeration, and no value of an interval leaks more."""

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import each, law
from tests.oracles import networks as oracle
from undertow.adversaries import Adversary, Against
from undertow.bounds.networks import contagions
from undertow.bounds.networks.contagions import FREQUENCY_WIDTH as WIDTH
from undertow.bounds.networks.contagions import leakage as contagion_leakage
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.pedigrees import leakage as pedigree_leakage
from undertow.errors import InvalidInput
from undertow.mechanisms import DiscreteLaplace, Laplace, PureDP
from undertow.models.networks import Contagion
from undertow.models.pedigrees import GENOTYPES, Pedigree
from undertow.queries import Count, Histogram, Query

QUIET = settings(deadline=None, derandomize=True, database=None)
COUNT = Laplace(Count("BB"), 1.0)
WHOM: list[Any] = ["any", "ignorant", "informed"]

SMALL: dict[str, Any] = {
    "single": ({}, ["kim"]),
    "duo": ({"kim": (None, "ann")}, ["kim", "ann"]),
    "trio": ({"kim": ("bob", "ann")}, ["kim", "bob", "ann"]),
    "siblings": ({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, ["kim", "lee", "bob", "ann"]),
    "half-siblings": ({"kim": ("bob", None), "lee": ("bob", None)}, ["kim", "lee", "bob"]),
    "generations": ({"bob": ("dad", None), "kim": ("bob", "ann")}, ["bob", "dad", "kim", "ann"]),
}


def nuclear(people, frequency=0.5):
    """Two parents and their children."""
    return Pedigree({f"child{n}": ("bob", "ann") for n in range(people - 2)}, frequency)


def values(pedigree, **more):
    leak = pedigree_leakage(more.pop("mechanism", COUNT), pedigree, **more)
    assert leak.closed
    return leak.upper


@pytest.mark.parametrize(
    ("people", "frequency", "leakage"),
    [(3, 0.5, 2.240229), (4, 0.5, 3), (5, 0.5, 4), (6, 0.5, 5),
     (3, 0.9, 2.869403), (4, 0.9, 3.545930), (5, 0.9, 4.214570), (6, 0.9, 5)],
)  # fmt: skip
def test_reference_nuclear_families(people, frequency, leakage):
    """Theory section 7: two parents and m - 2 children, epsilon 1."""
    assert values(nuclear(people, frequency)) == pytest.approx(leakage, abs=1e-6)


def test_the_general_bound_is_tight_for_trios_of_frequent_alleles():
    """m epsilon as p -> 1 at m = 3; (m - 1) epsilon is always reached (Corollary 5.2)."""
    assert 2.99 < values(nuclear(3, 0.999)) <= 3
    for people in (4, 7, 12):
        for frequency in (0.05, 0.5, 0.8):
            assert values(nuclear(people, frequency)) >= people - 1 - 1e-12


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("frequency", [0.5, 0.2])
def test_counts_are_exact(name, frequency):
    """Every adversary, three counted genotypes, two noise levels, against alleles."""
    parents, people = SMALL[name]
    pedigree = Pedigree(parents, frequency, people)
    joint = oracle.genotype_joint(parents, people, frequency)
    explicit = [Adversary(target, [r for r in range(len(people)) if r > target])
                for target in range(len(people))]  # fmt: skip
    for counted in range(3):
        for rate in (0.5, 2.0):
            mechanism = DiscreteLaplace(Count(GENOTYPES[counted]), 1 / rate)
            for against in (*WHOM, *explicit):
                leak = pedigree_leakage(mechanism, pedigree, against)
                truth = oracle.count_leakage(joint, [counted], rate, against)
                assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-9
                assert leak.closed
                if leak.witness is not None and against != "informed":
                    seen = oracle.count_attack(
                        joint, leak.witness, GENOTYPES, mechanism.query.states, rate
                    )
                    assert seen == pytest.approx(leak.lower, abs=1e-9)


def test_all_algorithms_on_a_trio():
    """Theory section 7: the linear program finds no more than the BB count, at p = .5."""
    parents, people = SMALL["trio"]
    truth = oracle.level_leakage(oracle.genotype_joint(parents, people, 0.5), 3, 1.0, "any")
    assert truth == pytest.approx(2.240229, abs=1e-6)
    leak = pedigree_leakage(PureDP(1.0), Pedigree(parents, 0.5, people))
    assert leak.lower == pytest.approx(truth, abs=1e-6)
    assert leak.upper == pytest.approx(truth, abs=1e-6)
    assert leak.closed
    assert leak.method == "exchange"
    wide = pedigree_leakage(PureDP(1.0), Pedigree(parents, (0.3, 0.5), people))
    assert wide.upper == 3.0
    assert wide.method == "group"
    assert "at most 3 people" in wide.assumptions[0]
    assert wide.lower > truth + 0.3  # a rarer B: the count of bb leaks more


def test_other_mechanisms_have_m_times_their_level():
    pedigree = nuclear(4)
    assert pedigree_leakage(PureDP(0.5), pedigree).upper == 2.0
    assert pedigree_leakage(PureDP(0.5), pedigree, "informed").upper == 0.5
    assert pedigree_leakage(Laplace(Query(len), 2.0), pedigree).upper == 2.0
    assert pedigree_leakage(Laplace(Query(len), 2.0), pedigree).lower >= 0.0
    # with everyone known but one parent of a childless couple nothing else depends on her
    apart = Pedigree({"kim": ("bob", "ann")}, latent=["kim"], people=["bob", "ann"])
    assert pedigree_leakage(PureDP(0.5), apart, "ignorant").upper == 0.5


# --- intervals of frequencies ---------------------------------------------------------------------


@law(
    settings(QUIET, max_examples=20), 2,
    name=st.sampled_from(["duo", "trio", "half-siblings", "generations", "siblings"]),
    low=st.floats(0.02, 0.9), width=st.floats(0.01, 0.6), rate=st.sampled_from([0.5, 1.0, 3.0]),
    counted=st.integers(0, 2), against=st.sampled_from(WHOM[:2]),
)  # fmt: skip
def test_no_frequency_in_the_interval_leaks_more(name, low, width, rate, counted, against):
    parents, people = SMALL[name]
    high = min(low + width, 0.98)
    mechanism = Laplace(Count(GENOTYPES[counted]), 1 / rate)
    leak = pedigree_leakage(mechanism, Pedigree(parents, (low, high), people), against)
    inside = [low + (high - low) * share for share in (0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 1)]
    found = [values(Pedigree(parents, p, people), mechanism=mechanism, against=against)
             for p in inside]  # fmt: skip
    assert max(found) <= leak.upper + 1e-12
    assert leak.upper - leak.lower <= 4 * WIDTH * max(1, leak.upper)
    worst = inside[found.index(max(found))]  # and one near it attains the lower end
    near = [min(max(worst + (high - low) * step / 100, low), high) for step in range(-25, 26)]
    assert leak.lower <= max(
        values(Pedigree(parents, p, people), mechanism=mechanism, against=against) for p in near
    ) + 1e-3  # fmt: skip


def test_an_interval_with_its_worst_frequency_inside():
    """Heterozygotes: the leakage of the Bb count of a trio peaks between the ends."""
    parents, people = SMALL["trio"]
    mechanism = Laplace(Count("Bb"), 1.0)
    ends = [values(Pedigree(parents, p, people), mechanism=mechanism) for p in (0.02, 0.98)]
    grid = [values(Pedigree(parents, p / 100, people), mechanism=mechanism) for p in range(2, 99)]
    leak = pedigree_leakage(mechanism, Pedigree(parents, (0.02, 0.98), people))
    assert leak.upper >= max(*ends, *grid) - 1e-12
    assert leak.upper <= max(*ends, *grid) + 1e-3
    assert any("worst frequency found" in note for note in leak.assumptions)


# --- many families, large families ----------------------------------------------------------------


def test_the_worst_family_counts():
    parents = {"kim": ("bob", "ann"), "c1": ("f", "m"), "c2": ("f", "m")}
    pedigree = Pedigree(parents, 0.5, people=["zoe"])
    leak = pedigree_leakage(COUNT, pedigree)
    assert leak.upper == pytest.approx(3.0)
    assert leak.witness is not None
    assert pedigree.people[leak.witness.target] in ("f", "m")
    one = Adversary(pedigree.people.index("kim"))
    assert pedigree_leakage(COUNT, pedigree, one).upper == pytest.approx(2.240229, abs=1e-6)
    joint = oracle.genotype_joint(parents, [*parents, "bob", "ann", "f", "m"], 0.5)
    truth = oracle.count_leakage(joint, [0], 1.0, "ignorant")
    known_nothing = pedigree_leakage(COUNT, pedigree, "ignorant")
    assert known_nothing.lower - 1e-9 <= truth <= known_nothing.upper + 1e-9


def test_families_too_large_have_the_general_bound_and_say_why():
    """Nine children, each married with two children: 38 people."""
    parents = {}
    for child in range(9):
        parents[f"c{child}"] = ("bob", "ann")
        for grandchild in range(2):
            parents[f"g{child}{grandchild}"] = (f"c{child}", f"s{child}")
    pedigree = Pedigree(parents)
    leak = pedigree_leakage(COUNT, pedigree)
    assert leak.method == "group"
    assert leak.upper == pedigree.length == 38
    assert any("the general bound is in force because" in note for note in leak.assumptions)
    assert leak.lower >= 10  # one grandparent moves nine children
    small = {person: pair for person, pair in parents.items() if person.startswith("c")}
    assert pedigree_leakage(COUNT, Pedigree(small)).upper == pytest.approx(10.0)


def test_bad_questions():
    with pytest.raises(InvalidInput, match="record 9"):
        pedigree_leakage(COUNT, nuclear(3), Adversary(9))


HOUSEHOLD: list[Against] = ["any", "ignorant", "informed", Adversary(1, [0])]


@each(("passed", "against"), [(0.1, 0.5), (0.0, 0.9), (0.35, 0.36)], HOUSEHOLD)
def test_no_probability_leaks_more(passed, against):
    flu = Contagion(3, 0.1, passed)
    leak = contagion_leakage(Laplace(Count("ill"), 1.0), flu, against)
    truths = [
        oracle.count_leakage(oracle.joint_of(flu.network(p)), [1], 1.0, against)
        for p in np.linspace(passed[0], passed[1], 41)
    ]
    assert max(truths) <= leak.upper
    assert leak.lower <= max(truths) + 1e-3
    assert leak.upper - leak.lower <= 2e-4 * max(1.0, leak.lower)


def test_a_drift_bounds_what_a_change_of_the_tables_does():
    """The bound of the module's docstring, with other networks in the place of the midpoint."""
    flu = Contagion(3, 0.2, (0.1, 0.6))
    noise = Laplace(Count("ill"), 0.7)
    for one, two in ((0.2, 0.21), (0.5, 0.4), (0.1, 0.6)):
        first, second = flu.network(one), flu.network(two)
        a, b = (network_leakage(noise, net).upper for net in (first, second))
        assert abs(a - b) <= 2 * contagions._drift(first, second)
        assert contagions._drift(first, second) > 0


def test_what_is_not_a_count_has_the_general_bound():
    flu = Contagion(3, 0.1, (0.1, 0.5))
    leak = contagion_leakage(PureDP(0.5), flu)
    assert leak.method == "group"
    assert 1.5 <= leak.upper <= 1.5 + 1e-12
    histogram = contagion_leakage(Laplace(Histogram(), 2.0), flu)
    assert histogram.method == "exact"
    assert histogram.closed or histogram.upper - histogram.lower < 1e-3


def test_impossible_ends_leave_the_general_bound():
    flu = Contagion(2, 0.0, (0.0, 1.0))  # at 0 nobody is ever ill
    assert contagion_leakage(Laplace(Count("ill"), 1.0), flu).upper == pytest.approx(2.0)


def test_one_probability_is_one_network():
    flu = Contagion(2, 0.1, (0.3, 0.3))
    noise = Laplace(Count("ill"), 1.0)
    assert contagion_leakage(noise, flu) == network_leakage(noise, flu.network(0.3))
