"""Nine persons, of whom one stays far longer than the others: the way from a table to a plan.

Pooled, they look harmless; the plan for the one chain of all is too weak for some of them. The way
that nobody tuned must say so, and the way that it suggests must protect each of them.
"""

import polars as pl
import pytest

import undertow as ut
from tests.accepting import broken

LEAVES = (0.06, 0.2, 0.25, 0.25, 0.3, 0.3, 0.35, 0.4, 0.4)
PERSONS = [ut.MarkovChain([[1 - q / 2, q / 2], [q, 1 - q]]) for q in LEAVES]


def table(persons, records, shuffled=False):
    rows = [
        (f"p{number}", time, record)
        for number, person in enumerate(persons)
        for time, record in enumerate(person.simulate(records, seed=number))
    ]
    frame = pl.DataFrame(rows, schema=["id", "t", "state"], orient="row")
    return frame.sample(fraction=1.0, shuffle=True, seed=3) if shuffled else frame


def read(frame):
    return ut.Data(frame, value="state", person="id", time="t")


LATER = read(table(PERSONS, 4000).with_columns(pl.col("t") + 4000))
"""Records of the same persons after those that are fitted."""


@pytest.fixture(scope="module")
def fit():
    return ut.MarkovChain.fit(read(table(PERSONS, 4000)), public=True)


def of(plan, name):
    return next(check for check in plan.checks if check.name == name)


def test_the_pooled_plan_says_whom_it_fails_and_at_what_cost(fit):
    plan = ut.calibrate(ut.Count(1), fit, limit=1.0, accept=broken(fit))
    worst = max(ut.leakage(plan.mechanism, person).upper for person in PERSONS)
    assert worst > 2.5  # somebody is far from protected
    persons = of(plan, "persons")
    assert persons.outcome == "failed"
    assert persons.leakage[1] >= worst  # and the plan does not say less
    assert "persons differ" in str(plan)
    out = ut.release(plan, LATER)
    assert "plan for the population" in " ".join(out.report().text().split())


def test_the_population_protects_each_of_them(fit):
    everyone = fit.population()
    plan = ut.calibrate(ut.Count(1), everyone, limit=1.0, accept=broken(everyone))
    for person in PERSONS:
        assert ut.leakage(plan.mechanism, person).proves(1.0)
    out = ut.release(plan, LATER)
    said = " ".join(out.report().text().split())
    assert "holds for every person in the sample (9 persons), with confidence 95%" in said
    assert "not private" in said
