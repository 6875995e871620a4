"""Reports of releases at a delta: the odds sentence, the noise really sampled, mu and rho."""

import json
from functools import cache
from typing import Any

import pytest

import undertow as ut
from tests.reporting.pages import CHAIN, COUNT, RECORDS, Page
from undertow.reporting import words

ASKED: dict[str, Any] = {"delta": 1e-6, "method": "closed"}


@cache
def count(noise="gaussian"):
    return ut.calibrate(ut.Count("active"), CHAIN, 1.0, noise=noise, **ASKED)


def said(plan, records=RECORDS):
    return " ".join(ut.release(plan, records).report().text().split())


def test_what_a_report_says_at_a_delta():
    text = said(count())
    for words_ in (
        "by more than a factor 5.44 with probability at most 2e-6 (leakage 1 at delta 1e-6)",
        "move by more than a factor 5.44 (that is 2 e^1) with probability at most 2e-6",
        "Each release mu",
        "of Gaussian DP for one replaced record, rho",
        ": a normal variable, drawn exactly, rounded to a whole number; drawn from the operating",
        "method 'closed'; Theorem 1",
        "exact: whole numbers, no floating-point trace",
        "closed (this release) Gaussian, sigma",
        "the records depend on each other as the model says",
    ):
        assert words_ in text, words_
    assert "lost" not in text
    assert "equally likely before" not in text


def test_which_noise_was_really_sampled():
    summed = ut.calibrate(
        ut.Sum(0, 10, {state: 3 * place for place, state in enumerate(CHAIN.states)}),
        CHAIN,
        1.0,
        noise="gaussian",
        **ASKED,
    )
    assert "discrete Gaussian noise, sigma" in said(count("discrete-gaussian"))
    assert "rho" in words.levels(count("discrete-gaussian"))
    assert "mu" not in words.levels(count("discrete-gaussian"))
    assert "rounded to a whole number of steps of the lattice" in said(
        summed, list(CHAIN.states) * 5
    )
    assert "exact, on a lattice" in said(summed, list(CHAIN.states) * 5)
    assert words.levels(COUNT) is None
    assert words.noise(COUNT).startswith("discrete Laplace noise, scale")


def test_json_and_page():
    report = ut.release(count(), RECORDS).report()
    found = json.loads(report.to_json())
    noise, promise = found["noise"], found["promise"]
    assert noise["sigma"] == count().noise.amount
    assert noise["scale"] is None
    assert promise["delta"] == 1e-6
    assert promise["mu"] == count().noise.mu_upper()
    assert promise["rho"] == count().noise.rho_upper()
    assert "2 e^1" in promise["odds"]
    assert promise["dp_level"] == "inf"
    assert found["comparison"][0]["sigma"] == count().noise.amount
    page = " ".join(" ".join(Page(report.html()).words).split())
    assert "a normal variable, drawn exactly, rounded to a whole number" in page
    assert "with probability at most 2e-6" in page


def test_data_of_another_shape_finds_the_closed_proof():
    ten = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=10)
    plan = ut.calibrate(ut.Count("active"), ten, 1.0, noise="gaussian", **ASKED)
    assert ut.release(plan, RECORDS[:7]).proof.upper <= 1
    with pytest.raises(ut.errors.UndertowError, match="series have 20 records"):
        ut.release(plan, RECORDS * 2)
