"""Plans for a window of records: which methods make them, what they say, how they are proved."""

import json
from dataclasses import replace

import pytest

import undertow as ut
from undertow.diagnostics.other_models import robustness
from undertow.diagnostics.windows import budget_by_window, window_sizes
from undertow.errors import InvalidInput, InvalidPlan, MethodRefused, NotSupported
from undertow.methods import METHODS
from undertow.planning.coverage import check_proof, covering

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
DAY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"), length=24)
QUERY, HOUR = ut.Count("active"), ut.Window(12)


@pytest.fixture(scope="module")
def plan():
    return ut.calibrate(QUERY, CHAIN, limit=1.0, secret=HOUR)


def test_the_noise_keeps_the_limit_for_the_window_and_no_more(plan):
    assert plan.method == "exchange"
    assert plan.leakage.upper <= 1.0
    assert plan.leakage.lower > 1 - 1e-9
    assert plan.leakage.secret.window == 12
    noise = plan.mechanism
    assert ut.leakage(noise, CHAIN, secret=HOUR).upper <= 1.0
    assert ut.leakage(noise, CHAIN, secret=ut.Window(13)).upper > 1.0


def test_a_window_of_one_record_is_that_record():
    assert ut.calibrate(QUERY, CHAIN, 1.0, secret=ut.Window(1)) == ut.calibrate(QUERY, CHAIN, 1.0)


def test_the_plan_says_what_it_protects(plan):
    assert "between any two histories of 12 records in a row" in plan.guarantee()
    assert "the history of any 12 records in a row" in str(plan)
    assert "secret=Window(records=12)" in repr(plan)
    one = ut.calibrate(
        QUERY, CHAIN, 1.0, ut.Adversary(5, [1]), method="exchange", secret=ut.Window(3)
    )
    assert "wants records 5 to 7 and knows 1" in one.guarantee()


def test_the_file_holds_the_window(plan):
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert check_proof(again) == plan.leakage
    assert json.loads(plan.to_json())["leakage"]["secret"] == {"kind": "window", "records": 12}


def test_a_plan_that_claims_a_longer_window_is_refused(plan):
    claim = replace(plan.leakage, secret=replace_window(plan, 13))
    with pytest.raises(InvalidPlan, match="its noise leaks up to"):
        check_proof(replace(plan, leakage=claim))
    other = ut.calibrate(QUERY, CHAIN, 1.0, method="exact")
    claim = replace(other.leakage, secret=replace_window(plan, 2))
    with pytest.raises(InvalidPlan, match="'exact' is about one record"):
        check_proof(replace(other, leakage=claim))


def replace_window(plan, window):
    return ut.Window(window)


def test_flips_that_claim_a_window_are_refused(plan):
    flips = ut.calibrate(ut.Series(), CHAIN, 2.0)
    claim = replace(flips.leakage, secret=replace_window(plan, 2))
    with pytest.raises(
        InvalidPlan, match="values of one record, not between any two histories of 2 records"
    ):
        check_proof(replace(flips, leakage=claim))


@pytest.mark.parametrize(
    ("key", "value"),
    [("records", 0), ("records", 2.5), ("records", None), ("pairs", [3]), ("kind", "near")],
)
def test_files_with_broken_windows_are_refused(plan, key, value):
    body = json.loads(plan.to_json())
    body.pop("checksum", None)
    found = body["plan"]["leakage"] if "plan" in body else body["leakage"]
    found["secret"][key] = value
    with pytest.raises(InvalidPlan):
        ut.Plan.from_json(json.dumps(body))


def test_methods_for_one_record_refuse_and_say_so():
    for name, method in METHODS["answer"].items():
        if method.scope.windows or not method.pure:
            continue
        with pytest.raises(MethodRefused, match="is about one record, and the history of 12"):
            ut.calibrate(QUERY, DAY, 1.0, "ignorant", method=name, secret=HOUR)
    with pytest.raises(MethodRefused, match="'sweep' is about one record"):
        ut.calibrate(QUERY, CHAIN, 1.0, method="sweep", delta=1e-6, secret=HOUR)
    pair = ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]])
    with pytest.raises(NotSupported, match="a window is of records in a row"):
        ut.calibrate(ut.Sum(0, 1), pair, 1.0, method="exchange", secret=ut.Window(2))


def test_groups_count_a_group_for_each_record():
    found = ut.calibrate(QUERY, ut.Groups(3), 1.0, secret=ut.Window(2))
    assert found.mechanism.scale == pytest.approx(6.0)
    whole = ut.calibrate(QUERY, DAY, 1.0, method="group", secret=HOUR)
    assert whole.mechanism.scale == pytest.approx(24.0)
    informed = ut.calibrate(QUERY, DAY, 1.0, "informed", method="group", secret=HOUR)
    assert informed.mechanism.scale == pytest.approx(12.0)
    assert informed.leakage.against == "informed"


def test_gaussian_noise_goes_through_the_closed_exchange():
    found = ut.calibrate(QUERY, CHAIN, 1.0, method="closed", delta=1e-6, secret=HOUR)
    budget = ut.dp_budget(CHAIN, 1.0, delta=1e-6, secret=HOUR)
    assert found.mechanism.sigma == pytest.approx(budget.sigma, rel=1e-6)
    assert ut.Plan.from_json(found.to_json()) == found
    assert check_proof(found).proves(1.0)
    several = ut.calibrate(QUERY, CHAIN, 1.0, delta=1e-6, releases=52, secret=HOUR)
    assert several.method == "closed"
    assert check_proof(several).secret.window == 12


class _Shape:
    """Data of a shape, as `covering` asks for it."""

    longest = shortest = series = 40
    gaps = windowed = split = False


def test_the_proof_covers_gaps_and_parts(plan):
    shape = _Shape()
    shape.gaps = shape.windowed = shape.split = True
    assert covering(plan, shape).secret.window == 12


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"secret": ut.Window(25)}, "the window has 25 records, but a series has 24"),
        ({"secret": ut.Person(), "method": "exchange"}, "leave method out"),
        ({"secret": 5}, r"secret must be Window\(12\), Person\(\), .* found 5"),
    ],
)
def test_bad_questions_are_refused_in_one_line(ask, said):
    with pytest.raises((InvalidInput, NotSupported), match=said):
        ut.calibrate(QUERY, DAY, 1.0, **ask)


def test_series_are_about_records():
    with pytest.raises(InvalidInput, match="belongs to a curator's answers"):
        ut.calibrate(ut.Series(), CHAIN, 1.0, secret=HOUR)  # type: ignore[call-overload]


def test_other_models_are_asked_about_the_same_window(plan):
    other = ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]], plan.states, length=plan.length)
    (_, case) = robustness(plan, factors=(), others={"lively": other})
    expected = ut.leakage(plan.mechanism, other, secret=HOUR)
    assert case.leakage.upper == expected.upper > ut.leakage(plan.mechanism, other).upper


def test_the_table_goes_from_a_record_to_a_person():
    table = budget_by_window(DAY, 1.0)
    levels = [row.level for row in table]
    assert window_sizes(DAY) == (1, 2, 3, 6, 12, 24)
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == pytest.approx(ut.dp_budget(DAY, 1.0), rel=2e-6)
    assert levels[-1] == pytest.approx(1 / 24, rel=2e-6)
    assert table.person == pytest.approx(1 / 24)
    assert table.to_dict()["rows"][-1]["records"] == 24
    assert "a whole person" in str(table)
    for row in table:
        assert row.level <= row.independent * (1 + 1e-12)
        found = ut.leakage(ut.PureDP(row.level), DAY, secret=ut.Window(row.records))
        assert found.upper <= 1.0
    with pytest.raises(InvalidInput, match="in increasing order"):
        budget_by_window(DAY, 1.0, windows=(3, 2))
