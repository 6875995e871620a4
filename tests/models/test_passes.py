"""Passes over hidden states in blocks, scores and fits by context, against plain enumeration."""

import datetime
import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from tests.engine.laws import SYMBOLS, A, B
from undertow.errors import DisclosureWarning, InvalidInput, NotSupported, UnknownState
from undertow.models.fitting.hidden import (
    Laws,
    ascended,
    climbed,
    fit_hidden,
    random_laws,
)
from undertow.models.fitting.passes import Passes
from undertow.models.fitting.scores import bits
from undertow.models.fitting.series import Cycle, cycles, unbroken

MIDNIGHT = datetime.datetime(2025, 1, 6)  # a Monday


def enumerated(codes, ends, owner, labels, classes, start, kernels):
    """Likelihood, expected transitions and first states, by all series of hidden states."""
    size = owner.size
    total, counts, begun = 0.0, np.zeros_like(kernels), np.zeros_like(start)
    for number, (first, end) in enumerate(itertools.pairwise([0, *ends])):
        mass, own, firsts = 0.0, np.zeros_like(kernels), np.zeros(size)
        for path in itertools.product(range(size), repeat=end - first):
            if any(owner[s] != code for s, code in zip(path, codes[first:end], strict=True)):
                continue
            weight = start[classes[number], path[0]]
            for t, (one, two) in enumerate(itertools.pairwise(path), first):
                weight *= kernels[labels[t], one, two]
            mass += weight
            firsts[path[0]] += weight
            for t, (one, two) in enumerate(itertools.pairwise(path), first):
                own[labels[t], one, two] += weight
        total += math.log(mass)
        counts += own / mass
        begun[classes[number]] += firsts / mass
    return total, counts, begun


@pytest.mark.parametrize("seed", range(12))
def test_passes_are_the_sums_over_all_hidden_series(seed):
    random = np.random.default_rng(seed)
    size = 2 + seed % 2
    owner = random.permutation(np.concatenate([np.arange(size), random.integers(0, size, 2)]))
    ends = np.cumsum(random.integers(1, 5, 4))
    codes = random.integers(0, size, ends[-1])
    labels, classes = random.integers(0, 3, ends[-1]), random.integers(0, 2, 4)
    labels[0], classes[0] = 2, 1
    kernels = random.dirichlet(np.full(owner.size, 0.4), (2, 3, owner.size)) + 1e-6
    kernels /= kernels.sum(axis=-1, keepdims=True)
    start = random.dirichlet(np.ones(owner.size), (2, 2))
    passes = Passes(codes, ends, owner, labels, classes)
    posterior = passes.run(start, kernels)
    for one in range(2):
        value, counts, begun = enumerated(
            codes, ends, owner, labels, classes, start[one], kernels[one]
        )
        assert posterior.log_likelihood[one] == pytest.approx(value, rel=1e-11)
        assert np.allclose(posterior.counts[one], counts, atol=1e-10)
        assert np.allclose(posterior.begun[one], begun, atol=1e-10)
        assert np.log(passes.scales(start[one], kernels[one])).sum() == pytest.approx(value)


def test_blocks_do_not_show_in_long_series():
    """Many blocks, many starts, regimes that last: as plain recursions from record to record."""
    random = np.random.default_rng(1)
    chain = ut.HiddenChain(
        [[0.99, 0.004, 0.003, 0.003], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.5, 0.1],
         [0.001, 0.001, 0.003, 0.995]], (0, 0, 1, 1),
    )  # fmt: skip
    codes = np.array(chain.simulate(5000, seed=2))
    passes = Passes(codes, np.array([1700, 5000]), chain.shown)
    kernels = random.dirichlet(np.full(4, 0.2), (40, 1, 4)) + 1e-9
    kernels /= kernels.sum(axis=-1, keepdims=True)
    kernels[3, 0] = chain.transition
    posterior = passes.run(np.tile(chain.initial, (40, 1, 1)), kernels)
    shows = np.eye(2)[chain.shown]
    value = 0.0
    for first, end in ((0, 1700), (1700, 5000)):
        law = chain.initial * shows[:, codes[first]]
        for code in codes[first + 1 : end]:
            value += math.log(law.sum())
            law = (law / law.sum()) @ chain.transition * shows[:, code]
        value += math.log(law.sum())
    assert posterior.log_likelihood[3] == pytest.approx(value, rel=1e-11)
    assert posterior.counts.sum(axis=(1, 2, 3)) == pytest.approx(np.full(40, 4998.0))
    assert np.log(passes.scales(chain.initial[None], kernels[3])).sum() == pytest.approx(value)
    wide = ut.HiddenChain.of_order(random.dirichlet([1.0, 1.0], (2,) * 5))  # 16 states a symbol
    read = unbroken(codes.tolist())
    start = bits(wide, read)[:6].sum()
    assert 2**-start == pytest.approx(wide.joint(6)[tuple(codes[:6])])


def test_impossible_records_are_refused():
    never = ut.MarkovChain([[0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(InvalidInput, match=r"record 3 .* probability 0"):
        never.score([0, 0, 1, 1, 0])


def test_regimes_that_hardly_ever_change_are_no_impossible_records():
    """Products over blocks underflow where a regime was left twice; the records are possible."""
    rare = 1e-98
    chain = ut.HiddenChain(
        [[0.9 - 2 * rare, 0.1, rare, rare], [0.1, 0.9 - 2 * rare, rare, rare],
         [rare, rare, 0.01, 0.99 - 2 * rare], [rare, rare, 0.99 - 2 * rare, 0.01]], (0, 1, 0, 1),
    )  # fmt: skip
    slow, quick = [0] * 1500 + [1] * 1500, [0, 1] * 1500
    series = slow + quick + slow + quick
    law = chain.initial * (chain.shown == series[0])
    total = 0.0
    for record in series[1:]:
        total -= math.log2(law.sum())
        law = law / law.sum() @ chain.transition * (chain.shown == record)
    total -= math.log2(law.sum())
    assert chain.score(series) == pytest.approx(total / len(series), rel=1e-9)
    assert total > 3 * 98 * math.log2(10) * 0.9  # three changes of regime were paid for


# --- scores -----------------------------------------------------------------------------------


CHAINS: dict[str, Any] = {
    "order one": ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]),
    "given start": ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[0.2, 0.8]),
    "order two": ut.MarkovChain.second_order([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]]),
    "order three": ut.HiddenChain.of_order(
        np.random.default_rng(1).dirichlet([1, 1], (2, 2, 2)).tolist()
    ),
    "hidden": ut.HiddenChain(A, SYMBOLS),
    "hidden, mixed order": ut.HiddenChain(A, (1, 0, 1, 0), states=(0, 1)),
    "cycle": ut.HiddenChain.periodic([A, B], SYMBOLS, steps_per=2),
    "cycle, mixed order": ut.HiddenChain.periodic([A, B], (1, 0, 0, 1), states=(0, 1)),
    "periodic": ut.MarkovChain.periodic(
        [[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.2, 0.8]]], length=5, steps_per=2
    ),
}


def law_of(model, records):
    """The joint law of the first records."""
    if isinstance(model, ut.MarkovChain):
        table = np.asarray(model.initial)
        for record in range(records - 1):
            table = table[..., None] * model.step(record)
        return table
    return model.joint(records)


@pytest.mark.parametrize("name", CHAINS)
def test_a_score_is_the_mean_of_the_surprises_by_enumeration(name):
    model = CHAINS[name]
    series = [[0, 1, 1, 0, 0], [1, 0, 1]]
    total = -sum(math.log2(law_of(model, len(one))[tuple(one)]) for one in series)
    assert model.score(series) == pytest.approx(total / 8, rel=1e-10)
    gap = [*series[0], None, *series[1]]  # a missing record breaks a series
    assert model.score(gap) == pytest.approx(total / 8, rel=1e-10)


def test_scores_are_for_chains_and_their_states():
    with pytest.raises(NotSupported, match="Groups"):
        ut.Groups(3).score([0, 1])
    with pytest.raises(UnknownState):
        CHAINS["hidden"].score([0, 1, 2])
    with pytest.raises(InvalidInput, match="5 records"):
        CHAINS["periodic"].score([0, 1, 0, 1, 0, 1])
    with pytest.raises(InvalidInput, match="no records"):
        CHAINS["hidden"].score([])


def table(values, start=MIDNIGHT, minutes=60, person=None):
    """Records of one person from a time on, as a table with a clock."""
    step = datetime.timedelta(minutes=minutes)
    frame = {"ts": [start + step * place for place in range(len(values))], "x": values}
    if person is not None:
        frame["id"] = [person] * len(values)
    return pl.DataFrame(frame)


def data(values, start=MIDNIGHT, minutes=60):
    """The table as data whose steps are named."""
    return ut.Data(table(values, start, minutes), time="ts", value="x", every=f"{minutes}m")


def test_the_clock_of_the_data_gives_the_phase():
    """A series from 05:00 on begins in the law of 05:00, whatever the model's first label is."""
    random = np.random.default_rng(4)
    kernels = random.dirichlet(np.ones(4), (24, 4))
    chain = ut.HiddenChain.periodic(list(kernels), SYMBOLS, every="1h")
    values = [0, 1, 1, 0, 1]
    start = MIDNIGHT + datetime.timedelta(hours=5)
    law, total = chain.hidden_laws()[5], 0.0
    for place, value in enumerate(values):
        law = law * (np.array(SYMBOLS) == value)
        total -= math.log2(law.sum())
        law = law / law.sum() @ chain.kernel(5 + place)
    assert chain.score(data(values, start)) == pytest.approx(total / 5)
    assert chain.score(values) != pytest.approx(total / 5)  # a list begins at the first label
    other = ut.HiddenChain.periodic(list(kernels), SYMBOLS)  # its step is not stated
    assert other.score(data(values, start)) == pytest.approx(chain.score(values))


def test_cycles_of_the_clock():
    read = unbroken(data([0, 1] * 12 * 15, MIDNIGHT + datetime.timedelta(hours=22)))
    found = dict(cycles(read))
    assert set(found) == {"part of day", "hour", "weekday"}
    assert found["weekday"].labels_of(read)[:3].tolist() == [0, 0, 1]  # Monday, then Tuesday
    assert found["hour"].labels_of(read)[:4].tolist() == [22, 23, 0, 1]
    assert found["part of day"].labels[found["part of day"].labels_of(read)[0]] == "21:00"
    assert found["part of day"].steps_per == 3
    assert not dict(cycles(unbroken([0, 1] * 100)))  # no clock
    assert not dict(cycles(unbroken(data([0, 1] * 100, minutes=7))))  # 7 divides no hour
    assert set(dict(cycles(unbroken(data([0, 1] * 60))))) == {"part of day", "hour"}  # five days
    irregular = table([0, 1] * 100).with_columns(pl.col("ts").gather([*range(199), 199]))
    irregular = irregular.filter(pl.int_range(pl.len()) != 50)
    assert not dict(cycles(unbroken(ut.Data(irregular, time="ts", value="x"))))


# --- fits by context --------------------------------------------------------------------------

NIGHT = np.array([[0.97, 0.01, 0.01, 0.01], [0.6, 0.3, 0.05, 0.05], [0.3, 0.2, 0.3, 0.2],
                  [0.1, 0.1, 0.2, 0.6]])  # fmt: skip
DAYTIME = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.3, 0.3, 0.3], [0.05, 0.15, 0.2, 0.6],
                    [0.01, 0.02, 0.07, 0.9]])  # fmt: skip
DAILY = ut.HiddenChain.periodic(
    {hour: DAYTIME if 3 <= hour < 7 else NIGHT for hour in range(8)}, (0, 0, 1, 1), steps_per=3,
    every="1h",
)  # fmt: skip


@pytest.fixture(scope="module")
def days():
    return data(DAILY.simulate(24 * 300, seed=6))


def test_the_penalised_likelihood_never_falls(days):
    read = unbroken(days)
    owner, generator = np.repeat([0, 1], 2), np.random.default_rng(3)
    labels = dict(cycles(read))["hour"].labels_of(read)
    passes = Passes(read.codes, read.ends, owner, labels)
    one, two = (random_laws(read, owner, generator) for _ in range(2))
    start = Laws(
        np.concatenate([one.start, two.start]),
        np.repeat(np.concatenate([one.kernels, two.kernels]), 24, axis=1),
    )
    laws, values = start, []
    for _ in range(12):
        value, laws = ascended(passes, laws, 30.0)
        values.append(value)
    assert (np.diff(values, axis=0) >= -1e-7).all()
    assert (values[-1] > values[0] + 10).all()
    free, _ = ascended(passes, laws)
    apart = values[-1] - free  # the penalty, in plain sums
    kernels = laws.kernels
    centre = np.exp(np.log(kernels).mean(axis=1, keepdims=True))
    centre /= centre.sum(axis=-1, keepdims=True)
    assert (apart < 0).all()
    value, _ = ascended(passes, laws, 30.0)
    divergence = (centre * np.log(centre / kernels)).sum(axis=(1, 2, 3))
    assert value - free == pytest.approx(-30 * divergence, rel=1e-9)
    # extrapolation does not let it fall either
    reached = [climbed(passes, start, steps, 0.0, 30.0)[0] for steps in (3, 6, 12, 24)]
    assert (np.diff(reached, axis=0) >= -1e-7).all()
    assert (reached[-1] >= values[-1] - 1e-6).all()


def test_a_fit_by_context_finds_the_hours(days):
    fitted = ut.HiddenChain.fit(days, context="part of day", starts=4, public=True)
    pooled = ut.HiddenChain.fit(days, starts=4, public=True)
    fresh = data(DAILY.simulate(24 * 100, seed=7))
    truth = DAILY.score(fresh)
    assert fitted.score(fresh) < truth + 0.01
    assert pooled.score(fresh) > truth + 0.05
    assert fitted.labels[:2] == ("00:00", "03:00")
    assert fitted.records.every == "1h"
    assert fitted.records.context == fitted.context == "part of day"
    assert fitted.origin == "public"
    share = fitted.marginals()[:, 1]
    assert share == pytest.approx(DAILY.marginals()[:, 1], abs=0.14)  # five errors
    assert fitted.parameters == 8 * 12
    assert fitted.log_likelihood == pytest.approx(-math.log(2) * 7200 * fitted.score(days))
    plain = type(fitted).from_dict(fitted.to_dict())
    assert plain == fitted
    assert plain.kind == "periodic-hidden-chain"


def test_a_floor_is_stated(days):
    free = ut.HiddenChain.fit(days, starts=2, seed=1, public=True)
    mixed = ut.HiddenChain.fit(days, starts=2, seed=1, floor=0.01, public=True)
    assert np.allclose(mixed.transition, 0.99 * free.transition + 0.01 / 4, atol=1e-12)
    assert mixed.floor == 0.01
    assert "0.01 of the uniform" in " ".join(mixed.disclaimers())
    assert not free.floor


def test_refused_fits(days):
    with pytest.raises(InvalidInput, match="part of day"):
        ut.HiddenChain.fit(days, context="moon", public=True)
    with pytest.raises(InvalidInput, match="time column"):
        ut.HiddenChain.fit([0, 1] * 100, context="hour", public=True)
    with pytest.raises(InvalidInput, match="attractive"):
        ut.HiddenChain.fit(days, context="hour", attractive=True, public=True)
    with pytest.warns(DisclosureWarning):
        fit_hidden(days, hidden=1, starts=1, context="hour")


def test_a_cycle_without_a_clock_begins_with_each_series():
    cycle = Cycle("shift", ("early", "late"), 2)
    read = unbroken([[0, 1, 0, 1, 0], [1, 0]])
    assert cycle.labels_of(read).tolist() == [0, 0, 1, 1, 0, 0, 0]
