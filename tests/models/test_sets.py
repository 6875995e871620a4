"""Sets of models: members must describe the same records, and files restore them."""

import dataclasses
import json

import pytest
from hypothesis import settings

import undertow as ut
from tests.grids import law
from tests.strategies import models
from undertow.errors import InvalidModel
from undertow.models.base import Model
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.sets import model_from_dict

P, Q = [[0.9, 0.1], [0.3, 0.7]], [[0.7, 0.3], [0.4, 0.6]]
STILL, LIVELY = ut.MarkovChain(P, ("a", "b")), ut.MarkovChain(Q, ("a", "b"))
BOX = ChainBox([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]], ("a", "b"))
MIXING = MixingClass(("a", "b"), 0.3, 0.4)


def test_a_set_says_what_it_is():
    both = ut.ModelSet([STILL, LIVELY])
    assert both.models == (STILL, LIVELY)
    assert both.describe() == "any one of 2 models"
    assert isinstance(both, Model)
    assert both == ut.ModelSet((STILL, LIVELY))
    assert hash(both) == hash(ut.ModelSet((STILL, LIVELY)))
    assert both != ut.ModelSet([STILL])
    with pytest.raises(dataclasses.FrozenInstanceError):
        both.models = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "needs at least one model"),
        ([STILL, "chain"], "member 1 of the set is a str, not a model"),
        ([P], "member 0 of the set is a list"),
        ("ab", "member 0 of the set is a str"),
        ([STILL, ut.MarkovChain(Q, ("b", "a"))], "same state names in the same order"),
        ([STILL, ut.MarkovChain(Q)], "same state names"),
        ([STILL, ut.MarkovChain(Q, ("a", "b"), length=9)], "same length"),
        ([STILL, ChainBox(P, P)], "same state names"),
        ([STILL, MixingClass(2, 0.3, 0.4)], "same state names"),
        ([BOX, MixingClass(("a", "b"), 0.3, 0.4, length=9)], "same length"),
    ],
)
def test_members_that_do_not_fit_are_refused(members, message):
    with pytest.raises(InvalidModel, match=message):
        ut.ModelSet(members)


def test_nested_members_that_do_not_fit_are_refused():
    with pytest.raises(InvalidModel):
        ut.ModelSet([ut.ModelSet([STILL]), ut.MarkovChain(Q, ("c", "d"), length=4)])


def test_groups_fit_any_chain():
    assert len(ut.ModelSet([STILL, ut.Groups(3), ut.ModelSet([LIVELY])]).models) == 3


def test_classes_of_chains_fit_their_chains():
    mixed = ut.ModelSet([STILL, BOX, ut.ModelSet([MIXING, ut.Groups(3)])])
    assert mixed.members() == [STILL, BOX, MIXING, ut.Groups(3)]
    assert model_from_dict(json.loads(json.dumps(mixed.to_dict()))) == mixed


def test_a_note_is_told_and_kept():
    noted = ut.ModelSet([STILL, LIVELY], note="two good days")
    assert noted.describe() == "any one of 2 models (two good days)"
    assert noted != ut.ModelSet([STILL, LIVELY])
    assert model_from_dict(json.loads(json.dumps(noted.to_dict()))) == noted
    plain = ut.ModelSet([STILL, LIVELY])
    assert plain.note is None
    assert "note" not in plain.to_dict()
    with pytest.raises(InvalidModel, match="must be a text, found int"):
        ut.ModelSet([STILL], note=5)  # type: ignore[arg-type]


def test_a_note_enters_the_assumptions_of_a_leakage():
    leak = ut.leakage(ut.PureDP(1.0), ut.ModelSet([STILL, LIVELY], note="two good days"))
    assert "two good days" in leak.assumptions


@law(settings(deadline=None, derandomize=True, database=None, max_examples=80), 8, model=models())
def test_files_restore_every_model(model):
    text = json.dumps(model.to_dict(), allow_nan=False)
    assert model_from_dict(json.loads(text)) == model


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (None, "an object with a 'kind'"),
        ([], "an object with a 'kind'"),
        ("groups", "an object with a 'kind'"),
        ({"kind": "gaussian"}, "needs 'mean'"),
        ({"kind": "cloud"}, "unknown kind of model 'cloud'"),
        ({"kind": None}, "unknown kind of model None"),
        ({"kind": "groups"}, "needs 'size'"),
        ({"kind": "set"}, "needs a list 'models'"),
        ({"kind": "set", "models": {}}, "needs a list 'models'"),
        ({"kind": "set", "models": []}, "at least one model"),
        ({"kind": "set", "models": [1]}, "an object with a 'kind'"),
        ({}, "needs a 'transition' matrix"),
        ({"kind": "markov-chain"}, "needs a 'transition' matrix"),
        ({"transition": [[0.5, 0.5], [0.5, 0.4]]}, "row 1"),
    ],
)
def test_foreign_descriptions_are_refused(description, message):
    with pytest.raises(InvalidModel, match=message):
        model_from_dict(description)
