"""Hidden chains by a public context: laws, files, refusals, and leakages to one adversary."""

import itertools
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.engine.laws import SYMBOLS, A, B
from undertow.auditing.inference import observe, read_outputs, smoothed
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.models.registry import model_from_dict
from undertow.testing import enumeration as oracle

CYCLE = {"into odd": A, "into even": B}
FIVE = ut.HiddenChain.periodic(CYCLE, SYMBOLS, length=5)
REACHED_BY_B = [0.26183908, 0.19385764, 0.20927973, 0.33502356]

# docs, theory-engine E15: target, known values, and by epsilon the largest over all algorithms and
# the pairwise bound, for 1 against 0 and for 0 against 1
REFERENCE = [
    (2, {}, {0.1: ((0.21648841, 0.21654438), (0.21861132, 0.21866284)),
             1.0: ((1.94181775, 1.95198496), (2.09653680, 2.10242993))}),
    (1, {}, {0.1: ((0.22535195, 0.22537192), (0.22678624, 0.22680537)),
             1.0: ((2.06294336, 2.06545557), (2.16679370, 2.16807305))}),
    (2, {0: 0}, {0.1: ((0.20152606, 0.20159108), (0.20201194, 0.20205700)),
                 1.0: ((1.87319634, 1.88492351), (1.90635008, 1.91174995))}),
    (2, {0: 0, 4: 1}, {0.1: ((0.16933722, 0.17028493), (0.17039317, 0.17129565)),
                       1.0: ((1.61685429, 1.62928788), (1.71001571, 1.71758273))}),
    (1, {3: 1}, {0.1: ((0.18215649, 0.18273324), (0.18284327, 0.18348276)),
                 1.0: ((1.74207233, 1.74523772), (1.80004457, 1.80895957))}),
    (2, {1: 1}, {0.1: ((0.11857823, 0.12506781), (0.11904986, 0.12443003)),
                 1.0: ((1.14705005, 1.26579780), (1.17914924, 1.22408781))}),
]  # fmt: skip


def joint_of(chain, records):
    """The joint law of the first records, by the oracle, from the kernels alone."""
    steps = [chain.kernel(record) for record in range(records - 1)]
    return oracle.hidden_joint(chain.initial, np.array(steps), tuple(chain.shown), records)


def test_the_first_label_is_that_of_the_first_record_and_the_start_comes_back():
    assert FIVE.initial == pytest.approx(REACHED_BY_B, abs=5e-9)
    assert [FIVE.label(record) for record in range(4)] == ["into odd", "into even"] * 2
    slow = ut.HiddenChain.periodic(CYCLE, SYMBOLS, steps_per=3)
    assert [slow.label(record) for record in range(7)] == (
        ["into odd"] * 3 + ["into even"] * 3 + ["into odd"]
    )
    law = slow.initial
    for record in range(6):
        assert slow.hidden_laws()[record] == pytest.approx(law, rel=1e-12)
        law = law @ slow.kernel(record)
    assert law == pytest.approx(slow.initial, rel=1e-12)
    lowered = slow.lowered()
    assert lowered.phases == slow.phases == 6
    assert np.array_equal(lowered.kernels[2], A)
    assert np.array_equal(lowered.kernels[3], B)
    assert lowered.law(8) == pytest.approx(slow.hidden_laws()[2], rel=1e-12)


def test_the_joint_law_is_the_oracle_s_and_the_reversal_reads_it_backwards():
    for chain in (FIVE, ut.HiddenChain.periodic(CYCLE, (0, 1, 0, 1), steps_per=2, length=6)):
        records = chain.length or 0
        law = chain.joint(records)
        assert np.allclose(law, joint_of(chain, records), atol=1e-14)
        back = chain.reverse().joint(records)
        assert np.allclose(back.transpose(), law, atol=1e-13)
        for record in range(records):
            others = tuple(t for t in range(records) if t != record)
            assert chain.marginals(records)[record] == pytest.approx(law.sum(axis=others))
    lowered = ut.HiddenChain.periodic(CYCLE, (1, 0, 1, 0)).lowered()
    steps = [lowered.kernel(record) for record in range(3)]
    relabelled = oracle.hidden_joint(lowered.start, np.array(steps), tuple(lowered.symbols), 4)
    assert np.allclose(relabelled, ut.HiddenChain.periodic(CYCLE, (0, 1, 0, 1)).joint(4))


def test_one_kernel_is_the_plain_hidden_chain():
    plain = ut.HiddenChain(B, SYMBOLS)
    cyclic = ut.HiddenChain.periodic([B], SYMBOLS, steps_per=4)
    assert cyclic.initial == pytest.approx(plain.initial, rel=1e-12)
    assert np.allclose(cyclic.joint(4), plain.joint(4), atol=1e-14)
    assert cyclic.integrated() == pytest.approx(plain.integrated(), rel=1e-10)
    own, same = (
        ut.leakage(ut.PureDP(0.7), chain, ut.Adversary(3, [1])) for chain in (cyclic, plain)
    )
    assert own.lower == pytest.approx(same.lower, rel=1e-8)
    assert own.upper == pytest.approx(same.upper, rel=1e-2)


def test_series_follow_the_law_and_its_memory():
    chain = ut.HiddenChain.periodic(CYCLE, ("rest", "rest", "move", "move"), steps_per=2)
    rows = np.array([chain.simulate(8, seed=seed) for seed in range(4000)]) == "move"
    assert rows.mean(axis=0) == pytest.approx(chain.marginals(8)[:, 1], abs=0.04)  # five errors
    assert chain.simulate(4, seed=3) == chain.simulate(8, seed=3)[:4]
    with pytest.raises(InvalidInput, match="no length"):
        chain.simulate()
    covariance, variance = np.zeros(200), 0.0
    laws, inside = chain.hidden_laws(), np.array([0.0, 0, 1, 1])
    for phase in range(4):
        law, share = laws[phase] * inside, float(laws[phase] @ inside)
        variance += share * (1 - share)
        for lag in range(200):
            law = law @ chain.kernel(phase + lag)
            covariance[lag] += law @ inside - share * laws[(phase + lag + 1) % 4] @ inside
    expected = 1 + 2 * covariance.sum() / variance
    assert chain.integrated()[1] == pytest.approx(expected, rel=1e-9)
    assert chain.autocorrelation() == chain.integrated().max()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(("target", "known", "values"), REFERENCE)
def test_the_reference_numbers_of_one_adversary(epsilon, target, known, values):
    """The joint law gives them by linear programs; the engine lies between them and E2."""
    joint = FIVE.joint(5)
    for (value, other), (exact, _) in zip(((1, 0), (0, 1)), values[epsilon], strict=True):
        facts = tuple(known), tuple(known.values())
        found = oracle.pure_dp_adversary(joint, epsilon, target, *facts, value, other)
        assert found == pytest.approx(exact, abs=1e-7)
    leak = ut.leakage(ut.PureDP(epsilon), FIVE, ut.Adversary(target, [*known]))
    largest = oracle.pure_dp_leakage(joint, epsilon, (target, tuple(known))).leakage
    assert leak.upper >= largest - 1e-9
    assert leak.lower <= largest + 1e-7
    if not known:  # all values of the known records are in the engine's number
        assert leak.upper <= max(bound for _, bound in values[epsilon]) + 1e-7
        assert leak.upper == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize("symbols", [SYMBOLS, (0, 1, 1), (0, 1)])
def test_every_target_of_every_phase_by_enumeration(symbols):
    """Hostile kernels in a cycle of three: all targets and known records of a short series."""
    size = len(symbols)
    random = np.random.default_rng(size)
    kernels = random.dirichlet(np.full(size, 0.5), size=(3, size)) + 1e-3
    kernels /= kernels.sum(axis=-1, keepdims=True)
    chain = ut.HiddenChain.periodic(list(kernels), symbols, length=5)
    joint = joint_of(chain, 5)
    for target in range(5):
        others = [record for record in range(5) if record != target]
        for known in itertools.chain([()], itertools.combinations(others, 1), [(0, 4), (2, 3)]):
            if target in known:
                continue
            leak = ut.leakage(ut.PureDP(0.8), chain, ut.Adversary(target, list(known)))
            largest = oracle.pure_dp_leakage(joint, 0.8, (target, known)).leakage
            assert leak.lower - 1e-7 <= largest <= leak.upper + 1e-7, (target, known)
            assert leak.upper <= 1.4 * largest


def test_an_attacker_reads_a_cycle_as_long_as_the_series():
    """Forward and backward passes go round the cycle: posteriors against enumeration."""
    chain = ut.HiddenChain.periodic(CYCLE, SYMBOLS)
    flips = ut.RandomizedResponse.binary(0.2, 0.1)
    outputs = [0, 1, 1, 0, 1, 0]
    observed = observe(read_outputs(outputs, flips, chain), flips, chain)
    posteriors = observed.hidden.records(smoothed(observed))
    joint = chain.joint(6)
    for records in itertools.product(range(2), repeat=6):
        for record, output in zip(records, outputs, strict=True):
            joint[records] *= flips.matrix[record, output]
    joint /= joint.sum()
    for record in range(6):
        others = tuple(t for t in range(6) if t != record)
        assert posteriors[record] == pytest.approx(joint.sum(axis=others), abs=1e-9)


def test_files_hold_the_whole_chain():
    chain = ut.HiddenChain.periodic(
        CYCLE, ("a", "a", "b", "b"), steps_per=36, context="half of the day", every="5m"
    ).mixed(0.001)
    read: Any = model_from_dict(json.loads(json.dumps(chain.to_dict())))
    assert read == chain
    assert (read.floor, read.records.every) == (chain.floor, "5m")
    assert read.describe() == chain.describe()
    assert "0.001 of the uniform" in read.disclaimers()[-1]
    assert len({chain, read, ut.HiddenChain.periodic(CYCLE, ("a", "a", "b", "b"))}) == 2
    assert read != ut.HiddenChain.periodic(CYCLE, ("a", "a", "b", "b"), steps_per=36)
    assert FIVE.endless().length is None
    assert FIVE.endless().initial == pytest.approx(FIVE.initial)
    assert "begins at" in FIVE.disclaimers()[-1]


def test_mixing_is_the_stated_law():
    chain = ut.HiddenChain.periodic([A, B], SYMBOLS)
    mixed = chain.mixed(0.2)
    assert np.allclose(mixed.kernels[1], 0.8 * B + 0.05)
    assert mixed.mixed(0.5).floor == pytest.approx(1 - 0.8 * 0.5)
    assert np.allclose(mixed.mixed(0.5).kernels[1], 0.4 * B + 0.6 / 4)
    assert chain.floor == 0
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        chain.mixed(1.0)


@pytest.mark.parametrize(
    ("kernels", "symbols", "more", "reason"),
    [
        ([], (0, 1), {}, "transition matrix for each context"),
        ([[[0.5, 0.5]]], (0, 1), {}, "square"),
        ([A, [[0.5, 0.5], [0.5, 0.5]]], SYMBOLS, {}, "same states"),
        ([A], (0, 0, 1), {}, "need 4 symbols"),
        ([A], (0, 0, 0, 0), {}, "at least two states"),
        ([A], SYMBOLS, {"steps_per": 0}, "steps_per"),
        ([A, B], SYMBOLS, {"steps_per": 60_000}, "at most"),
        ([A], SYMBOLS, {"context": " "}, "in words"),
        ([A], SYMBOLS, {"length": 1}, "length"),
        ([np.eye(2)], (0, 1), {}, "no single law"),
        ([[[1.0, 0.0], [1.0, 0.0]]], (0, 1), {}, "no record is ever"),
    ],
)
def test_refusals(kernels, symbols, more, reason):
    with pytest.raises(InvalidInput, match=reason):
        ut.HiddenChain.periodic(kernels, symbols, **more)


def test_refused_files():
    law = FIVE.to_dict()
    for change, reason in (
        ({"labels": ["a", "a"]}, "same label"),
        ({"labels": ["a"]}, "one kernel for each"),
        ({"floor": 2.0}, "between 0 and 1"),
        ({"phase": 1}, "phase"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            model_from_dict({**law, **change})


def test_an_upper_end_is_never_below_an_attack():
    """docs, theory-engine E15: some algorithm attains 2.650475 on some length."""
    with suppress(NotSupported):  # a refusal claims nothing
        assert ut.leakage(ut.PureDP(1.0), FIVE.endless()).upper >= 2.650475 - 1e-5


def test_frames_name_the_hidden_states():
    import pandas as pd

    names = ["deep", "light", "walk", "run"]
    frames = {label: pd.DataFrame(table, names, names) for label, table in CYCLE.items()}
    shown = pd.Series([1, 1, 0, 0], index=names[::-1])
    chain = ut.HiddenChain.periodic(frames, shown, states=(0, 1))
    assert chain.symbols == SYMBOLS
    with pytest.raises(InvalidModel, match="labels"):
        ut.HiddenChain.periodic(frames, pd.Series([1, 1, 0, 0], index=list("abcd")))


def test_a_periodic_chain_of_any_length_hides_nothing():
    day, night = [[0.8, 0.2], [0.3, 0.7]], [[0.95, 0.05], [0.6, 0.4]]
    table = {"night": night, "day": day}
    for phase, labels in (
        (0, ("night", "day")),
        (3, ("day", "night")),
        (1, tuple(f"{name}, step {step}" for name, step in (
            ("night", 1), ("night", 2), ("day", 0), ("day", 1), ("day", 2), ("night", 0)))),
    ):  # fmt: skip
        endless = ut.MarkovChain.periodic(table, ("a", "b"), steps_per=3, phase=phase)
        short = ut.MarkovChain.periodic(table, ("a", "b"), steps_per=3, phase=phase, length=8)
        assert endless.labels == labels
        assert (endless.length, endless.phases, endless.states) == (None, 6, ("a", "b"))
        assert endless.initial == pytest.approx(short.initial, rel=1e-12)
        joint = oracle.chain_joint(short.initial, short.transition)
        assert np.allclose(endless.joint(8), joint, atol=1e-14)
        whole = ut.leakage(ut.PureDP(0.7), short, ut.Adversary(3, [1, 6]))
        longer = ut.leakage(ut.PureDP(0.7), endless, ut.Adversary(3, [1, 6]))
        assert longer.upper >= whole.lower - 1e-9
