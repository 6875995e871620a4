"""Long runs against the oracle; `make soak` writes what they saw to soak/last-result.md.

UNDERTOW_SOAK_SECONDS (600 unless told) is shared out: 0.2 each to counts, to the exchange, to plans
of every method and to draws of noise, 0.2 to counts in 50 digits, distances and boxes, and 0.25 on
top to series. A short rehearsal runs with the ordinary tests.
"""

import dataclasses
import os
from collections.abc import Sequence

import pytest

import undertow as ut
from tests.soak.local import run_local, run_local_exact, run_local_plans
from tests.soak.plans import Trials, run_boxes, run_distances, run_plans
from tests.soak.work import Tally, run_counts, run_draws, run_exact, run_exchanges
from undertow.bounds.channels import wasserstein

CHAINS, EXCHANGES, DRAWS, TRIALS = 20_000, 2_000, 10_000_000, 20_000


def seconds(share):
    return share * float(os.environ.get("UNDERTOW_SOAK_SECONDS", "600"))


def table(tally: Tally, more: Sequence[tuple[str, object]]) -> list[str]:
    rows = [
        ("cases", tally.cases),
        *more,
        ("worst excess of lower over the truth (relative)", f"{tally.lower_excess:.3g}"),
        ("worst lack of upper below the truth (relative)", f"{tally.upper_lack:.3g}"),
        ("widest interval of an exact method (relative)", f"{tally.width:.3g}"),
        ("intervals wider than 1e-8", tally.open),
        ("failures", len(tally.failures)),
    ]
    shown = [f"| {name} | {value} |" for name, value in rows]
    return ["| what | found |", "|---|---|", *shown, "", *listed(tally.failures)]


def listed(failures: Sequence[str]) -> list[str]:
    return [*(f"- {failure}" for failure in failures[:20]), *([""] if failures else [])]


def verdict(trials: Trials, *more: str) -> list[str]:
    """The lines of a run of trials: how much was claimed, and by how much it was missed."""
    rows = [
        f"| cases | {trials.cases} |",
        *more,
        f"| comparisons | {trials.claims} |",
        f"| of these within 1e-6 of the claim | {trials.tight} |",
        f"| worst excess over what was claimed (relative) | {trials.excess:.3g} |",
        f"| failures | {len(trials.failures)} |",
    ]
    return ["| what | found |", "|---|---|", *rows, "", *listed(trials.failures)]


@pytest.mark.soak
def test_counts_against_enumeration(lines):
    tally = run_counts(seconds(0.2), CHAINS)
    lines += ["## Noisy counts against enumeration", "", *table(tally, [])]
    assert tally.cases > 0
    assert not tally.failures


@pytest.mark.soak
def test_counts_against_exact_arithmetic(lines):
    cases, failures = run_exact(seconds(0.06), CHAINS, CHAINS)
    lines += ["## Noisy counts in 50-digit arithmetic", ""]
    lines += [f"{cases} cases, {len(failures)} with an end on the wrong side.", ""]
    lines += [f"- {failure}" for failure in failures[:20]]
    assert cases > 0
    assert not failures


@pytest.mark.soak
def test_exchange_against_linear_programs(lines):
    tally = run_exchanges(seconds(0.2), EXCHANGES)
    more = [("linear programs", tally.programs), ("left out by the solver", tally.skipped)]
    lines += ["## The exchange against linear programs", "", *table(tally, more)]
    assert tally.cases > 0
    assert not tally.failures


@pytest.mark.soak
def test_plans_against_attackers(lines):
    trials = run_plans(seconds(0.2), TRIALS)
    more = [f"| plans | {trials.plans} |", f"| methods that refused | {trials.refused} |"]
    lines += ["## Plans of the certified methods against attackers", "", *verdict(trials, *more)]
    assert trials.plans > 0
    assert not trials.failures


@pytest.mark.soak
def test_distances_of_long_series(lines):
    trials = run_distances(seconds(0.08), TRIALS)
    lines += ["## Wasserstein distances of long series", "", *verdict(trials)]
    assert trials.claims > 0
    assert not trials.failures


@pytest.mark.soak
def test_boxes_against_their_chains(lines):
    trials = run_boxes(seconds(0.06), TRIALS)
    lines += ["## Boxes of chains against chains inside", "", *verdict(trials)]
    assert trials.claims > 0
    assert not trials.failures


@pytest.mark.soak
def test_series_against_enumeration(lines):
    tally = run_local(seconds(0.1), CHAINS)
    lines += ["## Flipped and redacted series against enumeration", "", *table(tally, [])]
    cases, failures = run_local_exact(seconds(0.05), CHAINS, CHAINS)
    lines += [f"In fractions: {cases} cases, {len(failures)} with an end on the wrong side.", ""]
    assert tally.cases > 0
    assert cases > 0
    assert not tally.failures
    assert not failures


@pytest.mark.soak
def test_plans_of_series_against_searches(lines):
    trials = run_local_plans(seconds(0.1), TRIALS)
    lines += ["## Plans of series against enumeration and search", "", *verdict(trials)]
    assert trials.claims > 0
    assert not trials.failures


@pytest.mark.soak
def test_draws_against_their_law(lines):
    """Null: discrete Laplace. False alarms below 1e-6 in all; noise 5% off must be rejected."""
    found = run_draws(seconds(0.2), DRAWS)
    twins = [draws for off in (0.95, 1.05) for draws in run_draws(600, 500_000, off)]
    lines += ["## Draws of discrete Laplace noise", "", "| scale | draws | sup distance | "]
    lines[-1] += "chi-square p | mean error (sigma) |"
    lines += ["|---|---|---|---|---|"]
    for draws in found:
        lines.append(
            f"| {draws.scale:g} | {draws.size:,} | {draws.distance:.2e} | {draws.p_value:.3g} | "
            f"{draws.sigmas:+.2f} |"
        )
    caught = sum(not draws.fits for draws in twins)
    lines += ["", f"Noise with a scale 5% off was rejected in {caught} of {len(twins)} runs."]
    assert all(draws.fits for draws in found)
    assert caught == len(twins)


# --- rehearsal ------------------------------------------------------------------------------------


def test_a_short_rehearsal_of_the_comparisons():
    counts, exchanges = run_counts(3600, 30), run_exchanges(3600, 6)
    assert not counts.failures
    assert not exchanges.failures
    cases, failures = run_exact(3600, 0, 60)
    assert cases > 25
    assert not failures
    assert (counts.cases, exchanges.cases + exchanges.skipped) == (30, 6)


def test_a_short_rehearsal_of_the_trials():
    for trials, cases in (
        (run_plans(3600, 4), 4),
        (run_distances(3600, 4), 4),
        (run_boxes(3600, 6), 6),
    ):
        assert not trials.failures
        assert (trials.cases, trials.claims > 5 * cases) == (cases, True)


def test_a_short_rehearsal_of_the_series():
    tally, trials = run_local(3600, 15), run_local_plans(3600, 3)
    assert not tally.failures
    assert not trials.failures
    assert (tally.cases, trials.cases) == (15, 3)
    cases, failures = run_local_exact(3600, 0, 12)
    assert cases > 5
    assert not failures


def test_a_short_rehearsal_of_the_draws():
    """125,000 draws; noise 30% off is rejected at every scale. False alarms below 1e-6."""
    assert all(draws.fits for draws in run_draws(30, 125_000))
    for factor in (0.7, 1.3):
        assert not any(draws.fits for draws in run_draws(30, 125_000, factor))


def test_a_wrong_interval_would_be_noticed(monkeypatch):
    """Ends moved by 1e-9 to the wrong side fail; by 1e-14, which is rounding, they do not."""
    honest = ut.leakage

    def shifted(lower, upper):
        def leakage(*words):
            leak = honest(*words)
            return dataclasses.replace(leak, lower=leak.lower + lower, upper=leak.upper + upper)

        return leakage

    for lower, upper, right in ((1e-9, 1e-9, False), (-1e-9, -1e-9, False), (1e-14, 1e-14, True)):
        monkeypatch.setattr(ut, "leakage", shifted(lower, upper))
        assert (not run_counts(3600, 60).failures) is right
    monkeypatch.setattr(ut, "leakage", shifted(0.0, -1e-9))
    assert run_exact(3600, 0, 60)[1]


def test_a_broken_guarantee_would_be_noticed(monkeypatch):
    """A tenth less noise, one count less of distance, a box a hundredth too low: all are caught."""
    calibrate, long, leakage = ut.calibrate, wasserstein._long, ut.leakage

    def quieter(*words, **more):
        plan = calibrate(*words, **more)
        return dataclasses.replace(
            plan, mechanism=dataclasses.replace(plan.mechanism, scale=0.9 * plan.mechanism.scale)
        )

    def lower(*words):
        leak = leakage(*words)
        return dataclasses.replace(leak, upper=0.99 * leak.upper)

    monkeypatch.setattr(ut, "calibrate", quieter)
    assert run_plans(3600, 2).failures
    monkeypatch.setattr(wasserstein, "_long", lambda *words: long(*words) - 1)
    assert run_distances(3600, 5).failures
    monkeypatch.setattr(ut, "leakage", lower)
    assert run_boxes(3600, 10).failures


@pytest.mark.soak
def test_checks_fail_few_true_chains():
    """Null: a fit fails a check with probability 5%; 2,000 chains; false alarms below 1e-3."""
    from scipy import stats

    from tests.models.test_checks import failures

    together, by_name = failures(2000, seed=2)
    assert together <= stats.binom.isf(1e-3, 2000, 0.05), by_name
