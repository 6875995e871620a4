"""Gaussian records: reference numbers, real heights and scores, and plans."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.test_gaussian_leakage import (
    FOLDER,
    GALTON,
    LAWS,
    R3,
    random_covariance,
    summed,
)
from undertow.adversaries import Adversary
from undertow.bounds.gaussian.leakages import leakage as gaussian_leakage
from undertow.errors import MethodRefused, NothingToProtect
from undertow.methods import METHODS
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.sets import ModelSet
from undertow.planning import gaussian as planning
from undertow.planning.calibrate import solve
from undertow.planning.questions import Question
from undertow.secrets import ONE_RECORD

# --- reference numbers ----------------------------------------------------------------------------


def test_three_records_where_knowing_one_helps():
    leak = gaussian_leakage(summed(3), MultivariateGaussian(0, R3))
    assert leak.upper == pytest.approx(2.578947368, abs=1e-9)
    assert leak.witness.target == 1
    assert leak.witness.known == ((0, 0.0),)
    assert (leak.witness.value, leak.witness.other) == (0.5, -0.5)
    ignorant = gaussian_leakage(summed(3), MultivariateGaussian(0, R3), "ignorant")
    assert ignorant.upper == pytest.approx(2.2, abs=1e-12)


def test_the_table_of_galton():
    model = MultivariateGaussian(0, GALTON)
    assert gaussian_leakage(summed(3), model).upper == pytest.approx(1.477, abs=1e-12)
    bounded = MultivariateGaussian.bounded(3, 0.275)
    assert gaussian_leakage(summed(3), bounded).upper == pytest.approx(1.55, abs=1e-12)
    assert gaussian_leakage(summed(3), bounded).lower == pytest.approx(1.55, abs=1e-12)
    assert gaussian_leakage(ut.PureDP(1.0), model).upper == 3.0


def read_rows(name, file, columns):
    path = FOLDER / name / file
    if not path.is_file():
        pytest.skip(f"no {name} data: set UNDERTOW_DATA to the folder that holds {name}/")
    with path.open(newline="") as source:
        return [[float(row[column]) for column in columns] for row in csv.DictReader(source)]


def judge_heights(rows, factor, tolerance):
    model = MultivariateGaussian.fit(rows, public=True)
    leak = gaussian_leakage(summed(3), model)
    assert leak.upper == pytest.approx(factor, abs=tolerance)
    assert leak.closed
    assert (leak.witness.target, leak.witness.known) == (1, ())  # the father, nothing known
    published = Question(ut.Sum(0, 100), model, 1.0, "any", ONE_RECORD)
    ours = planning.exchange(published)
    theirs = planning.gaussian_bound(published)
    assert ours.scale < theirs.scale < 3 * 100
    assert planning.prove_exchange(published, ours).proves(1.0)


def test_heights_of_galtons_families():
    rows = read_rows("galton", "galton.csv", ("height", "father", "mother"))
    assert len(rows) == 898
    judge_heights(rows, 1.468178, 1e-6)


def judge_scores(rows, factor, tolerance):
    """The published factor on mothers and children: unequal variances, too little noise."""
    model = MultivariateGaussian.fit(rows, public=True)
    unclipped = gaussian_leakage(ut.Laplace(ut.Linear([1, 1], 200.0), 200.0), model)
    assert unclipped.upper == pytest.approx(factor, abs=tolerance)
    assert (unclipped.witness.target, unclipped.witness.known) == (1, ())  # the mother
    question = Question(ut.Sum(0, 200), model, 1.0, "any", ONE_RECORD)
    noise = planning.gaussian_bound(question)
    rho = model.largest_correlation
    assert noise.scale == pytest.approx(200 * (1 + rho))
    leak = planning.prove_gaussian_bound(question, noise)
    assert leak.lower > 1.0  # a proof that the published noise under-protects
    assert not leak.proves(1.0)
    safe = planning.exchange(question)
    assert safe.scale > noise.scale
    assert planning.prove_exchange(question, safe).proves(1.0)
    return leak, gaussian_leakage(ut.Laplace(ut.Linear([1, 1], 200.0), noise.scale), model)


def test_scores_of_mothers_and_children():
    rows = read_rows("kidiq", "kidiq.csv", ("kid_score", "mom_iq"))
    assert len(rows) == 434
    clipped, unclipped = judge_scores(rows, 1.609975, 1e-6)
    assert clipped.lower == pytest.approx(1.1096, abs=5e-5)
    assert unclipped.upper == pytest.approx(1.1116, abs=5e-5)


# --- plans ----------------------------------------------------------------------------------------


def question(query, model, epsilon=1.0, against="any"):
    return Question(query, model, epsilon, against, ONE_RECORD)


@LAWS
@given(seed=st.integers(0, 10**6), size=st.integers(2, 4), epsilon=st.floats(0.05, 5))
def test_plans_spend_the_guarantee_and_no_more(seed, size, epsilon):
    model = MultivariateGaussian(1.0, random_covariance(seed, size))
    exact, exchange = planning.EXACT, planning.EXCHANGE
    for query, way in (
        (ut.Linear(np.ones(size), 2.0), exact),
        (ut.Linear(np.ones((2, size)), 2.0), exact),
        (ut.Linear(np.ones(size), 2.0), exchange),
        (ut.Sum(0, 2), exchange),
        (ut.Mean(0, 2), exchange),
    ):
        asked = question(query, model, epsilon)
        noise = way.solve(asked).mechanism
        leak = way.prove(asked, noise)
        assert leak.proves(epsilon)
        assert leak.upper == pytest.approx(epsilon, rel=1e-9)
        assert gaussian_leakage(noise, model).upper <= leak.upper * (1 + 1e-12)


def test_plans_for_sets_of_models_protect_all_of_them():
    one = MultivariateGaussian(0, [[1, 0.2], [0.2, 1]])
    two = MultivariateGaussian(0, [[1, 0.6], [0.6, 1]])
    asked = question(ut.Linear([1, 1], 1.0), ModelSet([one, two]))
    noise = planning.exact(asked)
    assert noise.scale == pytest.approx(1.6)
    leak = planning.prove_exact(asked, noise)
    assert leak.proves(1.0)
    assert leak.lower == pytest.approx(1.0)


def test_methods_refuse_what_they_do_not_know():
    model = MultivariateGaussian(0, R3)
    with pytest.raises(MethodRefused, match="unclipped Gaussian records"):
        planning.exact(question(ut.Sum(0, 1), model))
    with pytest.raises(MethodRefused, match="unclipped Gaussian records"):
        planning.exact(question(ut.Linear([1, 1, 1], 1.0, lower=0.0), model))
    with pytest.raises(MethodRefused, match="not Count"):
        planning.exchange(question(ut.Count("tall"), model))
    with pytest.raises(MethodRefused, match="not Query"):
        planning.gaussian_bound(question(ut.Query(max), model))
    with pytest.raises(MethodRefused, match="nothing to say about independent groups"):
        solve(METHODS["answer"]["gaussian-bound"], question(ut.Sum(0, 1), ut.Groups(2)))
    with pytest.raises(NothingToProtect, match="does not depend on the target"):
        planning.exact(
            question(ut.Linear([0.0, 1.0], 1.0), MultivariateGaussian(0, np.eye(2)),
                     against=Adversary(0))
        )  # fmt: skip
