"""`attack`: attackers against what was released, judged by the truth."""

import json
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.oracles import attackers as oracle
from undertow.auditing import attacking
from undertow.auditing.attackers import Guess, best, covers, totals
from undertow.auditing.attacking import Attack, Verdict
from undertow.auditing.inference import posteriors
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.reporting.formats import strict_json

attack: Any = attacking.attack
Plan: Any = ut.Plan
NAMES = ("idle", "active")
CHAIN = ut.MarkovChain([[0.95, 0.05], [0.1, 0.9]], states=NAMES)
SERIES = [CHAIN.simulate(400, seed=seed) for seed in range(3)]


def flips(epsilon, against="any"):
    return ut.calibrate(ut.Series(), CHAIN, epsilon, against)


def plain(level=1.0, chain=CHAIN):
    """Flips of a DP level: guaranteed to those who know all others, and to nobody else."""
    rho = 1 / (1 + math.exp(level))
    mechanism = ut.RandomizedResponse.binary(rho, rho)
    return Plan(mechanism, chain, level, Leakage(level, level, "exact", "informed"), "chakrabarti")


PLAIN = plain()
FLIPPED = ut.sanitize(PLAIN, SERIES, insecure_seed=3)
ALL = ("prior", "single-bit", "correlation-aware", "viterbi", "informed")


def test_every_attacker_is_scored_on_every_record():
    found = attack(FLIPPED, PLAIN, SERIES, attackers=ALL)
    truth = np.array([NAMES.index(x) for one in SERIES for x in one])
    assert [one.attacker for one in found.verdicts] == list(ALL)
    assert (found.records, found.series, found.limit) == (1200, 3, 1.0)
    aware = found.verdict("correlation-aware")
    guess = posteriors(FLIPPED, PLAIN.mechanism, CHAIN).reshape(-1, 2).argmax(axis=1)
    assert aware.accuracy == pytest.approx((guess == truth).mean())
    assert found.verdict("prior").accuracy == pytest.approx((truth == 0).mean())
    for one in found.verdicts:
        assert one.interval[0] < one.accuracy < one.interval[1]
        assert one.targets == 1200
        assert one.advantage == pytest.approx(one.accuracy - one.prior)
    assert found.verdict("viterbi").prior == pytest.approx(2 / 3)


def test_plain_dp_does_not_protect_records_that_depend_on_each_other():
    """Section 4.1 of [chakrabarti2022]: the guarantee holds for some and not for others."""
    chain = ut.MarkovChain([[0.95, 0.05], [0.05, 0.95]], states=NAMES)
    plan, truth = plain(chain=chain), chain.simulate(20_000, seed=3)
    found = attack(ut.sanitize(plan, truth, insecure_seed=4), plan, truth, attackers=ALL)
    bound = math.e / (1 + math.e)
    assert found.verdict("viterbi").bound == pytest.approx(bound)
    assert [one.attacker for one in found.verdicts if one.covers] == [
        "prior", "single-bit", "informed",
    ]  # fmt: skip
    assert [one.attacker for one in found.verdicts if one.exceeds()] == [
        "correlation-aware", "viterbi",
    ]  # fmt: skip
    assert not found.broken()
    single, aware = found.verdict("single-bit"), found.verdict("correlation-aware")
    assert single.charged == pytest.approx(1.0, abs=0.1)
    assert single.charged_interval[0] < 1 < single.charged_interval[1]
    assert single.worst == pytest.approx(1.0)
    assert aware.worst > aware.charged > 1.5
    assert "not against this attacker" in str(aware)


def test_a_broken_guarantee_is_noticed():
    """Flips of DP level 1 sold as a leakage of 1 against anyone."""
    chain = ut.MarkovChain([[0.95, 0.05], [0.05, 0.95]], states=NAMES)
    sold = plain(chain=chain)
    sold = Plan(sold.mechanism, chain, 1.0, Leakage(1.0, 1.0, "exact", "any"), "chakrabarti")
    truth = chain.simulate(20_000, seed=3)
    found = attack(ut.sanitize(sold, truth, insecure_seed=4), sold, truth)
    assert [one.attacker for one in found.broken()] == ["correlation-aware", "viterbi"]


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 5.0])
@pytest.mark.parametrize("known", [(), (0, 4, 5, 200, 399)])
def test_a_kept_guarantee_is_not_broken(epsilon, known):
    plan = flips(epsilon)
    outputs = ut.sanitize(plan, SERIES, insecure_seed=int(epsilon))
    found = attack(outputs, plan, SERIES, ALL, known)
    assert all(one.covers for one in found.verdicts)
    assert not found.broken()
    worst = [one.worst for one in found.verdicts if one.worst is not None]
    assert max(worst) <= plan.leakage.upper + 1e-9
    assert found.verdict("viterbi").targets == 3 * (400 - len(known))
    assert found.known == known


def test_known_records_help():
    some = attack(FLIPPED, PLAIN, SERIES, known=range(0, 400, 2))
    none = attack(FLIPPED, PLAIN, SERIES, targets=range(1, 400, 2))
    for name in ("correlation-aware", "viterbi", "prior"):
        assert some.verdict(name).accuracy > none.verdict(name).accuracy
        assert some.verdict(name).bound >= none.verdict(name).bound
    known = {t: SERIES[1][t] for t in range(0, 400, 2)}
    law = posteriors(FLIPPED[1], PLAIN.mechanism, CHAIN, known)[1::2]
    one = attack(FLIPPED[1], PLAIN, SERIES[1], ["correlation-aware"], range(0, 400, 2)).verdicts[0]
    truth = np.array([NAMES.index(x) for x in SERIES[1]])[1::2]
    assert one.accuracy == pytest.approx((law.argmax(axis=1) == truth).mean())


def test_redactions_are_attacked_where_they_protect():
    chain = ut.MarkovChain(CHAIN.transition, NAMES, length=40)
    plan = ut.calibrate(ut.Redacted(protect=17, length=40), chain, 1.0)
    series = [chain.simulate(seed=seed) for seed in range(60)]
    shown = ut.sanitize(plan, series, insecure_seed=1)
    found = attack(shown, plan, series)
    assert found.verdict("correlation-aware").targets == 60
    assert found.verdict("single-bit").accuracy == found.verdict("prior").accuracy
    assert not found.broken()
    assert found.verdict("correlation-aware").worst <= plan.leakage.upper + 1e-9
    assert found.verdict("correlation-aware").place[1] == 17
    elsewhere = attack(shown, plan, series, targets=[3])
    assert not any(one.covers for one in elsewhere.verdicts)


def test_tables():
    import polars as pl

    frame = pl.DataFrame(
        {
            "id": [name for name in "abc" for _ in range(400)],
            "hour": list(range(400)) * 3,
            "state": [x for one in SERIES for x in one],
        }
    )
    roles = {"value": "state", "person": "id", "time": "hour"}
    data = ut.Data(frame, **roles)
    outputs = ut.sanitize(PLAIN, data, insecure_seed=3)
    found = attack(outputs, PLAIN, data)
    lists = attack(outputs["state"].to_numpy().reshape(3, 400), PLAIN, SERIES)
    assert found == lists
    assert attack(ut.Data(outputs, **roles), PLAIN, data) == found
    gaps = frame.filter(~pl.col("hour").is_in([5, 6, 90]))
    holes = ut.Data(gaps, **roles, every=1)
    seen = ut.sanitize(PLAIN, holes, insecure_seed=3)
    assert attack(seen, PLAIN, holes, known=[2]).records == 3 * 397
    other = ut.Data(frame.with_columns(hour=pl.col("hour") + 1), **roles)
    with pytest.raises(InvalidInput, match=r"row 0 .* person and time"):
        attack(outputs, PLAIN, other)
    renamed = ut.Data(frame.with_columns(id=pl.col("id").replace("b", "d")), **roles)
    with pytest.raises(InvalidInput, match="row 400"):
        attack(outputs, PLAIN, renamed)
    with pytest.raises(InvalidInput, match="both have a column of times"):
        attack(ut.Data(outputs, value="state", person="id"), PLAIN, data)
    with pytest.raises(InvalidInput, match="table"):
        attack(outputs, PLAIN, SERIES)


# --- noisy answers --------------------------------------------------------------------------------

COUNT = ut.calibrate(ut.Count("active"), CHAIN, 1.0)


def test_counts_are_attacked_series_by_series_or_together():
    series = [CHAIN.simulate(30, seed=seed) for seed in range(8)]
    answers = [ut.release(COUNT, one, insecure_seed=7).value for one in series]
    found = attack(answers, COUNT, series, ["prior", "bayes", "informed"], known=[3])
    assert found.verdict("bayes").targets == 8 * 29
    assert not found.broken()
    assert all(one.covers for one in found.verdicts)
    assert found.verdict("bayes").worst <= COUNT.leakage.upper + 1e-9
    total = attack(sum(answers), COUNT, series, targets=[0])
    assert total.verdict("bayes").targets == 8
    groups = dict(zip("abcdefgh", answers, strict=True))
    assert attack(groups, COUNT, series) == attack(answers, COUNT, series)
    one = ut.release(COUNT, series[0], insecure_seed=1)
    assert attack(one, COUNT, series[0]) == attack(one.value, COUNT, series[0])


def test_the_best_guess_from_a_count_is_right_as_often_as_enumeration_says():
    """Null: the exact rate. 1,500 series of 5 records, 4 standard errors: 6e-5."""
    import itertools

    chain = ut.MarkovChain(oracle.LAZY, length=5)
    plan = Plan(
        ut.DiscreteLaplace(ut.Count(1), 0.7), chain, 9.0, Leakage(9.0, 9.0, "exact", "any"), "exact"
    )
    mass = np.zeros((2, 6))
    for series in itertools.product((0, 1), repeat=5):
        mass[series[2], sum(series)] += oracle.prior(chain, series)
    seen = np.arange(-40, 46)
    noise = np.exp(-np.abs(seen[:, None] - np.arange(6)) / 0.7)
    noise *= np.tanh(0.5 / 0.7)
    exact = (noise @ mass.T).max(axis=1).sum()
    truth: list[Any] = [chain.simulate(seed=seed) for seed in range(1500)]
    rng = np.random.default_rng(0)
    p = 1 - np.exp(-1 / 0.7)

    def share(scale):
        z = rng.geometric(p, 1500) - rng.geometric(p, 1500)
        answers = np.array([sum(one) for one in truth]) + np.rint(scale * z)
        return attack(answers, plan, truth, ["bayes"], targets=[2]).verdicts[0].accuracy

    error = math.sqrt(exact * (1 - exact) / 1500)
    assert abs(share(1.0) - exact) < 4 * error
    assert abs(share(4.0) - exact) > 4 * error  # another noise is noticed


def test_sums_and_histograms():
    amounts = ut.MarkovChain(oracle.LAZY, states=(0.0, 2.5))
    total = ut.calibrate(ut.Sum(0, 5), amounts, 1.0)
    series = amounts.simulate(60, seed=1)
    released = ut.release(total, series, insecure_seed=1)
    found = attack(released, total, series, ["bayes", "informed"])
    assert not found.broken()
    histogram = ut.calibrate(ut.Histogram(), CHAIN, 1.0)
    short = SERIES[0][:60]
    released = ut.release(histogram, short, insecure_seed=1)
    found = attack(released, histogram, short, ["bayes", "informed"])
    assert not found.broken()
    assert found == attack(list(released.value.values()), histogram, short, ["bayes", "informed"])


# --- what is covered ------------------------------------------------------------------------------


def test_whom_a_guarantee_covers():
    single = ut.MarkovChain(CHAIN.transition, NAMES, length=9)
    flip = ut.RandomizedResponse.binary(0.3, 0.3)

    def asked(against, attacker, known=(), targets=None, model=single, secret=None):
        leak = Leakage(1.0, 1.0, "exact", against)
        if secret is not None:
            leak = Leakage(1.0, 1.0, "exact", against, secret=secret)
        plan = Plan(flip, single, 1.0, leak, "exact")
        return covers(plan, attacker=attacker, known=known, targets=targets, model=model)

    from undertow.secrets import Pairs, Records

    assert asked("any", "viterbi", (3,))
    assert asked("any", "informed")
    assert asked("ignorant", "viterbi")
    assert not asked("ignorant", "viterbi", (3,))
    assert not asked("ignorant", "informed")
    assert asked("informed", "informed")
    assert asked("informed", "single-bit")
    assert not asked("informed", "correlation-aware")
    one = ut.Adversary(2, [5])
    assert asked(one, "viterbi", (5,), (2,))
    assert not asked(one, "viterbi", (5,), (3,))
    assert not asked(one, "viterbi", (), (2,))
    assert asked(one, "single-bit", (), (2,))
    assert not asked("any", "viterbi", model=CHAIN)
    assert not asked("any", "viterbi", secret=Records([3]))
    assert asked("any", "viterbi", targets=(3,), secret=Records([3]))
    assert asked("any", "viterbi", secret=Pairs([NAMES]))


def test_own_attackers():
    def contrary(scenario):
        return Guess(1 - best(scenario.prior), scenario.prior)

    found = attack(FLIPPED, PLAIN, SERIES, ["prior", contrary])
    assert found.verdict("contrary").accuracy == pytest.approx(1 - found.verdict("prior").accuracy)
    assert found.verdict("contrary").charged == 0.0
    assert found.verdict("contrary").worst is None


# --- what is returned -----------------------------------------------------------------------------


def test_words_and_json():
    found = attack(FLIPPED, PLAIN, SERIES, known=[7])
    said = json.loads(strict_json(found.to_dict()))
    assert said["known"] == [7]
    assert [one["attacker"] for one in said["verdicts"]] == list(ALL[:4])
    assert said["verdicts"][2]["interval"] == list(found.verdicts[2].interval)
    assert str(found).count("\n") == 4
    assert "leakage 1 guaranteed" in str(found)
    assert found.bound(1.0) == pytest.approx(found.verdicts[0].bound, abs=1e-8)
    assert found.bound(50.0) == pytest.approx(1.0)


def test_failed_and_accepted_checks_stand_beside_the_result():
    """A guarantee under a model that its records speak against is never told without that."""
    turns = ["idle", "idle", "active", "active"] * 250  # the last two records decide the next
    fit = ut.MarkovChain.fit(turns, public=True)
    failed = tuple(check.name for check in fit.checks if check.outcome == "failed")
    assert failed
    plan = ut.calibrate(ut.Series(), fit.point(), 4.0, "ignorant", accept=failed)
    attacked = attack(ut.sanitize(plan, turns, insecure_seed=1), plan, turns, attackers=["prior"])
    assert attacked.conditions == plan.conditions()
    assert any(failed[0] in clause for clause in attacked.conditions)
    assert str(attacked).splitlines()[0].endswith("; ".join(plan.conditions()))
    assert attacked.to_dict()["conditions"] == list(plan.conditions())


def test_certain_verdicts():
    sure = Verdict("bayes", 1.0, (0.9, 1.0), 0.5, math.inf, (0, 3), 1.0, True, 40)
    assert sure.charged == math.inf
    assert sure.charged_interval[0] == pytest.approx(math.log(9))
    assert Attack((sure,), 5.0, "any", 40, 1).broken() == (sure,)
    assert strict_json(sure.to_dict())
    other = Attack((sure,), 5.0, ut.Adversary(3, [1]), 40, 1)
    assert other.to_dict()["against"] == {"target": 3, "known": [1]}


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"truth": SERIES[:2]}, InvalidInput, "outputs of 3 series, and the truth has 2"),
        ({"truth": [*SERIES[:2], SERIES[2][:-1]]}, InvalidInput, "series 2 .* 400 outputs and 399"),
        ({"sanitised": [["idle", "x"]] * 3}, UnknownState, "record 1 of series 0"),
        ({"plan": "flips"}, InvalidInput, "a Plan is required"),
        ({"model": ut.Groups(2)}, InvalidInput, "must be a MarkovChain"),
        ({"model": ut.MarkovChain(oracle.LAZY)}, InvalidInput, "states of the plan"),
        ({"known": [400]}, InvalidInput, "record 400 .* known"),
        ({"known": range(400)}, InvalidInput, "no record is left"),
        ({"targets": [400]}, InvalidInput, "record 400 is wanted"),
        ({"targets": []}, InvalidInput, "targets is empty"),
        ({"attackers": ["lucky"]}, InvalidInput, "'lucky'"),
        ({"attackers": []}, InvalidInput, "at least one attacker"),
        ({"attackers": 3}, InvalidInput, "attackers must be a list, found 3"),
        ({"attackers": "prior"}, InvalidInput, "attackers must be a list, found 'prior'"),
        ({"attackers": [[]]}, InvalidInput, "attackers on series are .* found list"),
        ({"confidence": 1.0}, InvalidInput, "between 0 and 1"),
        ({"confidence": -1.0}, InvalidInput, "confidence"),
    ],
)
def test_refusals(change, error, words):
    asked = {"sanitised": FLIPPED, "plan": PLAIN, "truth": SERIES} | change
    with pytest.raises(error, match=words) as caught:
        attack(**asked)
    assert "asleep" not in str(caught.value)


def test_a_truth_that_cannot_have_led_to_the_outputs():
    sure = ut.RandomizedResponse([[0.5, 0.5], [0, 1]])
    plan = Plan(sure, CHAIN, 9.0, Leakage(9.0, 9.0, "exact", "any"), "exact")
    with pytest.raises(InvalidInput, match=r"record 1 of series 1 .* cannot come from"):
        attack([["idle"] * 2, ["idle"] * 2], plan, [["idle"] * 2, ["idle", "active"]])
    erase = ut.Redaction([[0, 0.5], [1, 1], [0, 0]])
    plan = Plan(erase, CHAIN, 9.0, Leakage(9.0, 9.0, "exact", "any"), "exact")
    with pytest.raises(InvalidInput, match="record 2 of series 0"):
        attack(["idle", None, "idle"], plan, ["idle", "idle", "active"])
    with pytest.raises(InvalidInput, match="record 0 of series 0"):
        attack([None, None, "idle"], plan, ["idle", "idle", "idle"])
    with pytest.raises(InvalidInput, match="exactly 3"):
        attack(["idle", None], plan, ["idle", "idle"])


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([1, 2], "2 answers and 3 series"),
        (["many"], "released answer"),
        ([1, 2, math.nan], "answer 2 .* finite"),
    ],
)
def test_bad_answers(answers, words):
    with pytest.raises(InvalidInput, match=words):
        attack(answers, COUNT, SERIES)


def test_foreign_records_count_as_when_they_were_flipped():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], states=("rest", "move"))
    plan = ut.calibrate(ut.Series(), chain, limit=2.0, missing="move")
    truth = [*chain.simulate(300, seed=1), None, "swim"]
    shown = ut.sanitize(plan, truth, insecure_seed=2)
    found = ut.attack(shown, plan, truth=truth)
    plain = ut.attack(shown, plan, truth=[*truth[:-2], "move", "move"])
    assert found == plain


def test_plans_with_a_delta_are_for_audits():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=5)
    claim = Leakage(1.0, 1.0, "as sold", "any", delta=0.01)
    noise = ut.Gaussian(ut.Count(1), 4.0)
    plan = ut.Plan(noise, chain, 1.0, claim, "exact", delta=0.01)
    with pytest.raises(NotSupported, match="audit"):
        ut.attack([3], plan, [0, 1, 1, 0, 1])
    with pytest.raises(NotSupported, match="Gaussian noise"):
        totals(noise, (0, 1), 5)
