"""Every result of [massny2025], recomputed quickly: what is reproduced, corrected and improved.

Values marked "reference" were computed without the package (enumeration, or a solver for smooth
constraints); the paper's figures have no readable numbers.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.grids import thinned
from tests.oracles import series as oracle
from undertow.bounds.channels.redaction import redaction_leakage
from undertow.mechanisms import Redaction
from undertow.models.chains import MarkovChain
from undertow_papers.findings import Compared, Improved, Recomputed, WorstCase
from undertow_papers.massny2025 import formulas, guarantees
from undertow_papers.massny2025.cases import (
    best_window,
    chain_of,
    draw_cases,
    leak_of,
    window_of,
)
from undertow_papers.massny2025.formulas import Setup
from undertow_papers.registry import Setting, find_results, printed

RESULTS = {found.item: found for found in find_results(["massny2025"])}
QUICK = Setting(quick=True, data=None, seed=1)
FOUND: dict[str, Recomputed] = {}

WANTED: dict[str, dict[str, int]] = {
    "tab1": {"reproduced": 4},
    "ex1": {"reproduced": 9, "improved": 2},
    "fig2": {"reproduced": 20, "corrected": 1},
    "fig3": {"reproduced": 25, "improved": 5, "not improved": 2},
    "fig4": {"reproduced": 6, "improved": 2},
    "thm1": {"reproduced": 3, "corrected": 1},
    "thm2": {"reproduced": 4, "corrected": 4},
    "alg1": {"reproduced": 5, "corrected": 1, "improved": 2},
    "cor1": {"reproduced": 2, "corrected": 3, "improved": 1},
    "lemma1": {"reproduced": 1},
    "cor2": {"reproduced": 2},
    "cor3": {"reproduced": 2},
    "prop1": {"reproduced": 4, "corrected": 3},
    "sec2": {"reproduced": 1},
    "eq4": {"reproduced": 2, "corrected": 2, "improved": 1},
    "sec5": {"reproduced": 5, "improved": 4},
    "def1": {"reproduced": 7, "differs": 9},
    "fn1": {"reproduced": 1, "improved": 2},
}


def outcome(item: str) -> Recomputed:
    if item not in FOUND:
        FOUND[item] = RESULTS[item].compute(QUICK)
    return FOUND[item]


def named(item: str, part: str) -> Any:
    """The one finding whose name contains a part."""
    (found,) = [f for f in outcome(item).findings if part in f.name]
    return found


def test_all_results_are_here():
    assert set(RESULTS) == set(WANTED)


@pytest.mark.parametrize("item", thinned(WANTED, keep=WANTED.keys() - {"sec5", "fig3"}))
def test_verdicts(item):
    """No verdict is typed in: the counts follow from the numbers, and a difference has a cause."""
    found = outcome(item)
    assert found.verdicts == WANTED[item], [(f.name, f.verdict) for f in found.findings]
    assert found.data == "none"
    for finding in found.findings:
        assert np.isfinite([finding.ours, finding.theirs]).all(), finding.name
        if finding.verdict in ("differs", "corrected"):
            assert finding.why not in ("", "cause unknown", "no witness"), finding.name
    for chart in found.charts:
        assert chart.name == item
        for panel in chart.panels:
            assert len(panel.lines) <= 6
            assert {line.role for line in panel.lines} >= {"ours", "theirs"}


@pytest.mark.parametrize("item", ["thm2", "cor1", "prop1", "lemma1"])
def test_results_are_deterministic(item):
    again = RESULTS[item].compute(QUICK)
    assert again.to_dict() == outcome(item).to_dict()


# --- figures --------------------------------------------------------------------------------------

FIGURE_3 = [  # reference: epsilon, bound, relaxed, one probability, optimum
    (0.25, 0.6, 0.614406, 0.667795, 0.689060),
    (0.5, 0.7, 0.705424, 0.713422, 0.738369),
    (1, 0.7, 0.747918, 0.789496, 0.795730),
    (1.5, 0.8, 0.809874, 0.814480, 0.833735),
    (2, 0.8, 0.844850, 0.860531, 0.861826),
    (2.5, 0.8, 0.866064, 0.885052, 0.885052),
    (3, 0.9, 0.9, 0.9, 0.9),
]


@pytest.mark.parametrize(("epsilon", "bound", "relaxed", "constant", "optimum"), FIGURE_3)
def test_figure_3(epsilon, bound, relaxed, constant, optimum):
    ends = f" at epsilon {epsilon:g}"
    rows = [f for f in outcome("fig3").findings if f.name.removesuffix(", attained").endswith(ends)]
    assert [row.ours for row in rows] == pytest.approx(
        [bound, relaxed, constant, optimum], abs=1e-6
    )
    for row, near in zip(rows[:3], (1e-9, 1e-6, 1e-4), strict=True):
        assert isinstance(row, Compared)
        assert row.source == "derived"
        assert row.holds
        assert row.theirs == pytest.approx(row.ours, abs=near)


def test_figure_4():
    lines = {line.label: list(line.y) for line in outcome("fig4").charts[0].panels[0].lines}
    assert lines["MQ (Algorithm 1)"] == [1] * 4 + [0] * 6
    assert lines["MQ, corrected"] == [1] * 3 + [0] * 7
    assert lines["3R, relaxed"][1:4] == pytest.approx((0.757415, 0.757415, 0), abs=1e-6)
    assert lines["3R, optimised"][1:4] == pytest.approx((0.546926, 0.546926, 0), abs=1e-4)
    assert lines["optimum"][1:5] == pytest.approx((0.549186, 0.34651, 0.122534, 0), abs=2e-5)


def test_example_1():
    assert named("ex1", "probability of erasing").ours == pytest.approx(0.119232586, abs=1e-9)
    assert named("ex1", "least private probability").ours == pytest.approx(0.293589138, abs=1e-9)


def test_printed_numbers_are_marked():
    """Only what the text prints is listed, and each entry says so."""
    values = printed("massny2025")
    assert {entry["source"] for entry in values.values()} == {"printed"}
    assert set(values) <= set(RESULTS)
    assert values["tab1"]["ratios"][1][0] == pytest.approx(2 / 3)


# --- theorems, judged by enumeration --------------------------------------------------------------


def test_theorem_2_is_refuted_by_enumeration():
    """The window (1, 2) is private by brute force, and shows more than the printed bound."""
    case = Setup(0.2, 0.3, 8, 4, 0.9116)  # shorter than the witness, same windows
    window = window_of(case, 1, 2)
    leak = oracle.truth(window, chain_of(case), "ignorant")
    assert leak <= case.epsilon
    assert best_window(case) == (1, 2)
    reached = 1 - sum((1, 2, 1)) / case.n
    assert reached > formulas.theorem_two(case) + 0.1
    assert reached == pytest.approx(formulas.theorem_two(case, 2))
    narrower = window_of(case, 1, 1)
    assert oracle.truth(narrower, chain_of(case), "ignorant") > case.epsilon


def test_the_correction_needs_positive_correlation():
    """alpha + beta > 1: the window (1, 3) is private, and 2 Delta* - 2 forbids it."""
    case = guarantees.NOT_CONVEX
    leak = oracle.truth(window_of(case, 1, 3), chain_of(case), "ignorant")
    assert leak == pytest.approx(2.4651111960, abs=1e-9)
    assert leak <= case.epsilon
    assert formulas.theorem_two(case, 2) == pytest.approx(0.4)
    worst = named("thm2", "where influences are not convex")
    assert (worst.ours, worst.verdict) == (pytest.approx(0.5), "corrected")


def test_theorem_2_at_its_witness():
    claim = named("thm2", "its utility is at most Theorem 2 with")
    assert (claim.ours, claim.theirs) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    claim = [f for f in outcome("thm2").findings if f.name == "its utility is at most Theorem 2"]
    assert claim[0].theirs == pytest.approx(7 / 12)


def test_algorithm_1_erases_too_many():
    """Four records more than the best window here; three are common."""
    assert named("alg1", "records erased beyond").ours == 4
    assert [f.ours for f in outcome("alg1").findings if isinstance(f, Improved)] == [3, 4]
    assert [f.theirs for f in outcome("alg1").findings if isinstance(f, Improved)] == [4, 7]


def test_corollary_1_by_enumeration():
    """Half the budget per side shows less than Algorithm 1, whose window is private."""
    case = guarantees.HALVED
    window = window_of(case, *formulas.algorithm_one(case))
    assert oracle.truth(window, chain_of(case), "ignorant") <= case.epsilon
    assert window.probabilities[:, 0].tolist() == [1, 1, 1, 0]
    assert named("cor1", f"(Theorem 1): {case.words}").ours == pytest.approx(0.25)


def test_what_leaks_to_any():
    """Reference: 1.6078 where .25 is guaranteed; X_3 = 1 known, X_2 = 0 shown."""
    rows = [f for f in outcome("def1").findings if "n = 8" in f.name]
    assert [row.ours for row in rows] == pytest.approx([1.6078, 1.6078], abs=5e-5)
    assert all("X_3 = 1 known" in row.why for row in rows)
    (table,) = outcome("def1").tables
    strict = [float(row[-1]) for row in table[2]]
    reference = [0.675506, 0.734476, 0.780849, 0.8, 0.861761, 0.8848, 0.898709]
    assert strict == pytest.approx(reference, abs=1e-6)


def test_the_optimum_beside_3r():
    """Reference: two-sided settings."""
    rows = [f for f in outcome("sec5").findings if isinstance(f, Improved)]
    assert [row.ours for row in rows] == pytest.approx(
        [0.854612, 0.581328, 0.656001, 0.743198], abs=1e-6
    )
    assert [row.theirs for row in rows] == pytest.approx(
        [0.834615, 0.486900, 0.569858, 0.708175], abs=1e-6
    )


# --- the paper's formulas and the search, apart from the results ----------------------------------


@pytest.mark.parametrize("case", [*draw_cases(7, 12)])
def test_the_grid_search_is_private_and_tight(case):
    """Eqs. 5 and 6, written out, agree with the exact leakage of the mechanism of Eq. 1."""
    one = replace(case, p=1, n=min(case.n, 7))
    medium, _ = formulas.regions(one, True)
    probability = formulas.constant_by_grid(one)
    made = guarantees._three_regions(one, (1.0, probability))
    assert oracle.truth(made, chain_of(one), "ignorant") <= one.epsilon + 1e-9
    if medium and probability > 2 * formulas.GRID:
        less = guarantees._three_regions(one, (1.0, probability - 2 * formulas.GRID))
        assert leak_of(one, less) > one.epsilon


def test_a_broken_inequality_is_seen():
    """The claims could fail: an attacker's table that leaks more than epsilon is reported."""
    tried = WorstCase()
    case = Setup(0.2, 0.3, 4, 1, 0.1)
    open_table = Redaction([[1, 1], [0, 0], [0, 0], [0, 0]], 0)
    leak = redaction_leakage(open_table, MarkovChain(case.transition, length=4), "ignorant").upper
    tried.offer(leak, case.epsilon, case.words)
    assert tried.broken == 1
    assert tried.claim("leak").verdict == "corrected"
    assert tried.claim("leak").why == case.words


@pytest.mark.parametrize("item", thinned(["prop1", "lemma1", "cor2", "cor3", "thm2"], keep=2))
def test_another_seed_gives_the_same_verdicts_on_theorems(item):
    for kind, count in RESULTS[item].compute(replace(QUICK, seed=5)).verdicts.items():
        assert count == WANTED[item][kind], kind
