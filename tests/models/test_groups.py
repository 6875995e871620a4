"""Groups of records that may depend on each other in any way."""

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.errors import InvalidInput, InvalidModel, NotSupported, UnknownState
from undertow.models.base import Model
from undertow.models.sets import model_from_dict


def test_groups_say_what_they_are():
    groups = ut.Groups(4)
    assert groups.size == 4
    assert "at most 4 records" in groups.describe()
    assert isinstance(groups, Model)
    assert groups == ut.Groups(4) != ut.Groups(5)
    assert hash(groups) == hash(ut.Groups(4))
    assert type(ut.Groups(np.int64(3)).size) is int  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "group size must be at least 1, found 0"),
        (-1, "at least 1"),
        (2.0, r"whole number, found 2\.0"),
        (True, "whole number, found True"),
        ("3", "whole number, found '3'"),
        (None, "whole number, found None"),
    ],
)
def test_bad_sizes_are_refused(size, message):
    with pytest.raises(InvalidInput, match=message):
        ut.Groups(size)


# --- named states ---------------------------------------------------------------------------------

HOUSEHOLDS = ut.Groups(3, states=("never", "former", "daily"))


def test_named_states_survive_a_file_and_bare_groups_are_written_as_before():
    assert ut.Groups(3).to_dict() == {"kind": "groups", "size": 3}
    assert model_from_dict(HOUSEHOLDS.to_dict()) == HOUSEHOLDS != ut.Groups(3)
    assert hash(HOUSEHOLDS) == hash(ut.Groups(3, ["never", "former", "daily"]))
    assert (repr(ut.Groups(3)), eval(repr(HOUSEHOLDS), {"Groups": ut.Groups})) == (
        "Groups(size=3)",
        HOUSEHOLDS,
    )
    plan = ut.calibrate(ut.Histogram(), HOUSEHOLDS, 1.0)
    assert ut.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ("yes", "found one string"),
        (("yes",), "at least two values of a record, found 1"),
        ((), "at least two values of a record, found 0"),
        (("yes", "yes"), "two states bear the same name"),
        (({}, []), "hashables"),
        (3, "a list of names, found int"),
    ],
)
def test_bad_names_are_refused(states, message):
    with pytest.raises(InvalidModel, match=message):
        ut.Groups(3, states)


def test_names_that_a_file_cannot_hold_are_refused():
    with pytest.raises(InvalidModel, match="texts or numbers, found list"):
        model_from_dict({"kind": "groups", "size": 3, "states": [["a"], ["b"]]})


def test_a_state_that_is_not_named_is_refused():
    with pytest.raises(UnknownState, match="no state 'weekly'"):
        ut.calibrate(ut.Count("weekly"), HOUSEHOLDS, 1.0)


def test_members_of_a_set_agree_on_the_names_they_have():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("no", "yes"))
    assert ut.ModelSet([ut.Groups(2), chain]).states == ("no", "yes")
    assert ut.ModelSet([ut.Groups(2, ("no", "yes")), chain]).states == ("no", "yes")
    with pytest.raises(InvalidModel, match="same state names"):
        ut.ModelSet([HOUSEHOLDS, chain])


def test_audits_draw_households():
    """Copies of one record among the named states, for a histogram too."""
    for query, states in (
        (ut.Histogram(), ("never", "former")),
        (ut.Count("daily"), ("daily", "never")),
    ):
        copied, _ = HOUSEHOLDS.examples(query)
        assert copied.states == states
    with pytest.raises(NotSupported, match="name them"):
        ut.Groups(3).examples(ut.Histogram())


# --- sizes held against the data ------------------------------------------------------------------

SURVEY = {
    "household": [1, 1, 1, 1, 1, 2, 2, 3],
    "person": [*range(8)],
    "smokes": ["daily", "never", "former", "never", "daily", "never", "never", "former"],
    "income": [30.0, 10.0, 0.0, 0.0, 55.0, 41.0, 20.0, 90.0],
}
QUESTIONS = [(ut.Count("daily"), "smokes"), (ut.Histogram(), "smokes"), (ut.Sum(0, 60), "income")]


def survey(value, person="household"):
    return ut.Data(pl.DataFrame(SURVEY), value=value, person=person)


@pytest.mark.parametrize(("query", "value"), QUESTIONS)
def test_households_larger_than_the_groups_are_refused_before_anything_is_spent(
    query, value, tmp_path
):
    names = HOUSEHOLDS.states if value == "smokes" else None
    small, large = ut.Groups(4, names), ut.Groups(5, names)
    ledger = ut.Ledger(tmp_path / "survey.db", "survey", small, limit=2.0)
    with pytest.raises(InvalidInput, match=r"at most 4 records .* group of the data has 5 .*\(5\)"):
        ut.release(ut.calibrate(query, small, 1.0), survey(value), ledger)
    assert ledger.entries() == []
    out = ut.release(ut.calibrate(query, large, 1.0), survey(value))
    report = " ".join(str(out.report()).split())
    assert "groups are the rows with one 'household': at most 5, as was checked" in report
    assert out.proof.proves(1.0)


def test_a_group_needs_the_column_that_says_which():
    """Without it all records are one group, and a group is no larger than the model says."""
    plan = ut.calibrate(ut.Count("daily"), ut.Groups(3), 1.0)
    flips = ut.calibrate(ut.Series(), HOUSEHOLDS, 3.0)
    for data in (survey("smokes", None), SURVEY["smokes"], ut.Data(SURVEY["smokes"])):
        with pytest.raises(InvalidInput, match=r"which of 8 belong together.*ungrouped=True"):
            ut.release(plan, data)
    with pytest.raises(InvalidInput, match="which of 8 belong together"):
        ut.sanitize(flips, survey("smokes", None))
    few = ut.release(plan, SURVEY["smokes"][:3]).report()
    assert "all 3 records are one group of at most 3" in " ".join(str(few).split())
    readings = ut.calibrate(ut.Count("daily"), ut.Groups(96), 1.0)
    with pytest.raises(InvalidInput, match="which of 17376 belong together"):
        ut.release(readings, ["daily", "never"] * 8688)


def test_a_curator_may_vouch_for_groups_and_every_report_repeats_it(tmp_path):
    plan = ut.calibrate(ut.Count("daily"), ut.Groups(2), 1.0)
    table = pl.DataFrame(SURVEY)
    for data in (
        ut.Data(table, value="smokes", ungrouped=True),
        ut.Data(SURVEY["smokes"], ungrouped=True),
    ):
        out = ut.release(plan, data)
        report = " ".join(str(out.report()).split())
        assert "at most 2 records do was not checked, the curator vouches" in report
        assert any("ungrouped" in said for said in out.proof.assumptions)
    ledger = ut.Ledger(tmp_path / "survey.db", "survey", ut.Groups(2), limit=2.0)
    ut.release(plan, ut.Data(table, value="smokes", ungrouped=True), ledger)
    assert ledger.entries()[0].about["asked"]["ungrouped"] is True
    flips = ut.calibrate(ut.Series(), HOUSEHOLDS, 3.0)
    assert len(ut.sanitize(flips, ut.Data(table, value="smokes", ungrouped=True))) == 8
    with pytest.raises(InvalidInput, match="say one of both"):
        ut.Data(table, value="smokes", person="household", ungrouped=True)


def test_answers_are_those_of_the_table():
    """With noise that vanishes the released numbers are the exact ones."""
    for query, value, exact in (
        (ut.Histogram(), "smokes", {"never": 4, "former": 2, "daily": 2}),
        (ut.Count("never"), "smokes", 4),
        (ut.Sum(0, 60), "income", 216.0),
    ):
        names = HOUSEHOLDS.states if value == "smokes" else None
        plan = ut.calibrate(query, ut.Groups(5, names), 1e4)
        found = ut.release(plan, survey(value)).value
        assert found == (exact if value == "smokes" else pytest.approx(exact, abs=1))


def test_an_account_of_groups_takes_plans_that_name_the_states(tmp_path):
    ledger = ut.Ledger(tmp_path / "survey.db", "survey", ut.Groups(5), limit=2.0)
    plan = ut.calibrate(ut.Histogram(), ut.Groups(5, HOUSEHOLDS.states), 1.0)
    assert ut.release(plan, survey("smokes"), ledger).entry
    other = ut.calibrate(ut.Histogram(), ut.Groups(6, HOUSEHOLDS.states), 1.0)
    with pytest.raises(ut.errors.LedgerConflict, match="another model"):
        ut.release(other, survey("smokes"), ledger)


def test_flipped_answers_of_households():
    """Each member flips alone; e^(limit / size) to one is all that an answer may say."""
    plan = ut.calibrate(ut.Series(), HOUSEHOLDS, 3.0)
    matrix = np.asarray(plan.mechanism.matrix)
    assert np.log(matrix.max() / matrix.min()) == pytest.approx(1.0, rel=1e-6)
    assert len(ut.sanitize(plan, [["daily", "never"], ["former"] * 3])) == 2
    with pytest.raises(InvalidInput, match=r"at most 3 records depend .* has 4"):
        ut.sanitize(plan, [["daily", "never"], ["former"] * 4])
    with pytest.raises(InvalidInput, match="group of the data has 5"):
        ut.sanitize(plan, survey("smokes"))
    device = plan.stream()
    assert len(list(device.each(["never"] * 3))) == 3
    with pytest.raises(InvalidInput, match="for 3 records of a series"):
        device.push("never")
