"""Hidden chains: what they accept, their laws, and fits by expectation-maximisation."""

import itertools
import json
import warnings

import numpy as np
import pytest

import undertow as ut
from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel
from undertow.models.fitting.hidden import Laws, ascended, random_laws
from undertow.models.fitting.passes import Passes
from undertow.models.fitting.series import unbroken
from undertow.models.registry import model_from_dict

REGIMES = [
    [0.93, 0.04, 0.02, 0.01],
    [0.05, 0.6, 0.25, 0.1],
    [0.1, 0.25, 0.6, 0.05],
    [0.01, 0.02, 0.04, 0.93],
]
CHAIN = ut.HiddenChain(REGIMES, ("idle", "idle", "active", "active"))


def test_the_joint_law_is_that_of_all_hidden_series():
    law = CHAIN.joint(4)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    for records in itertools.product(range(2), repeat=4):
        total = 0.0
        for hidden in itertools.product(range(4), repeat=4):
            if all(
                CHAIN.symbols[s] == CHAIN.states[x] for s, x in zip(hidden, records, strict=True)
            ):
                steps = [REGIMES[a][b] for a, b in itertools.pairwise(hidden)]
                total += CHAIN.initial[hidden[0]] * np.prod(steps)
        assert law[records] == pytest.approx(total, rel=1e-12)
    assert np.allclose(CHAIN.reverse().joint(4).transpose(), law, atol=1e-13)


def test_chains_of_an_order_are_hidden_chains():
    second = ut.MarkovChain.second_order([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]])
    assert np.allclose(ut.HiddenChain.of(second).joint(5), second.joint(5), atol=1e-14)
    law = second.lowered()
    lifted = ut.HiddenChain(law.kernels[0], [second.states[s] for s in law.symbols])
    assert np.allclose(lifted.joint(5), second.joint(5), atol=1e-14)
    first = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    assert ut.HiddenChain.of(first).joint(3)[1, 0, 1] == pytest.approx(0.25 * 0.3 * 0.1)
    with pytest.raises(InvalidModel, match="stationary start"):
        ut.HiddenChain.of(ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[1, 0]))


def test_the_integrated_autocorrelation_is_the_sum_of_its_terms():
    inside, share = np.array([0.0, 0, 1, 1]), CHAIN.marginal[1]
    total, power = 0.0, np.eye(4)
    for _ in range(2000):
        power = power @ CHAIN.transition
        total += (CHAIN.initial * inside) @ power @ inside - share**2
    assert CHAIN.integrated()[1] == pytest.approx(1 + 2 * total / (share * (1 - share)), rel=1e-9)
    assert CHAIN.autocorrelation() == CHAIN.integrated().max()


def test_files_hold_the_whole_chain():
    chain = ut.HiddenChain(REGIMES, (0, 0, 1, 1), length=30)
    read = model_from_dict(json.loads(json.dumps(chain.to_dict())))
    assert read == chain
    assert read.describe() == chain.describe()
    assert "hidden" in chain.disclaimers()[0]
    assert chain.endless().length is None
    assert len({chain, read}) == 1


@pytest.mark.parametrize(
    ("transition", "symbols", "reason"),
    [
        ([[1.0]], ("a",), "square"),
        ([[0.5, 0.5], [0.5, 0.4]], ("a", "b"), "sums to"),
        ([[0.5, 0.5], [0.5, 0.5]], ("a",), "need 2 symbols"),
        ([[0.5, 0.5], [0.5, 0.5]], ("a", "a"), "at least two states"),
        ([[0.5, 0.5], [0.5, 0.5]], "ab", "list"),
        ([[1.0, 0.0], [0.5, 0.5]], ("a", "b"), "no record is ever"),
    ],
)
def test_refusals(transition, symbols, reason):
    with pytest.raises(InvalidModel, match=reason):
        ut.HiddenChain(transition, symbols)


def test_series_follow_the_law():
    drawn = CHAIN.simulate(20_000, seed=5)
    share = drawn.count("active") / len(drawn)
    assert share == pytest.approx(CHAIN.marginal[1], abs=0.05)  # five standard errors
    assert CHAIN.simulate(50, seed=5) == drawn[:50]
    with pytest.raises(InvalidInput, match="no length"):
        CHAIN.simulate()


@pytest.fixture(scope="module")
def sample():
    return [CHAIN.simulate(1500, seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def fitted(sample):
    return ut.HiddenChain.fit(sample, CHAIN.states, starts=3, public=True)


def test_the_likelihood_never_falls(sample):
    read = unbroken([*sample, ["idle", None, "active", "idle"]], CHAIN.states)
    owner, generator = np.repeat([0, 1], 2), np.random.default_rng(3)
    laws, passes = random_laws(read, owner, generator), Passes(read.codes, read.ends, owner)
    values = []
    for _ in range(25):
        value, laws = ascended(passes, laws)
        values.append(value[0])
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] - values[0] > 10


def test_the_likelihood_and_a_step_are_those_of_hmmlearn(sample):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hmm = pytest.importorskip("hmmlearn.hmm")
    read = unbroken(sample[:1], CHAIN.states)
    other = hmm.CategoricalHMM(
        4, n_features=2, params="st", init_params="", n_iter=1, tol=0, implementation="scaling"
    )
    other.startprob_, other.transmat_ = np.array(CHAIN.initial), np.array(CHAIN.transition)
    other.emissionprob_ = np.eye(2)[CHAIN.shown]
    column = read.codes[:, None]
    law = Laws(CHAIN.initial[None], CHAIN.transition[None, None])
    (value,), raised = ascended(Passes(read.codes, read.ends, CHAIN.shown), law)
    step = raised.kernels[0, 0]
    assert other.score(column) == pytest.approx(value, rel=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(column)
    assert np.allclose(other.transmat_, step, atol=1e-9)


def test_one_hidden_state_per_symbol_is_a_markov_chain(sample):
    fitted = ut.HiddenChain.fit(sample, CHAIN.states, hidden=1, starts=1, public=True)
    chain = ut.MarkovChain.fit(sample, CHAIN.states, public=True)
    assert np.allclose(fitted.transition, chain.transition, atol=1e-9)


def test_a_fit_warns_and_refuses():
    with pytest.warns(DisclosureWarning):
        ut.HiddenChain.fit([0, 1, 1, 0, 1, 0, 0, 1], hidden=1, starts=1)
    with pytest.raises(InvalidModel, match="each of which occurs"):
        ut.HiddenChain.fit([0, 0, 0], (0, 1), public=True)
    with pytest.raises(InvalidInput, match="no records"):
        ut.HiddenChain.fit([None], public=True)
    with pytest.raises(InvalidInput, match="hidden"):
        ut.HiddenChain.fit([0, 1], hidden=0, public=True)
