"""What was proved stays proved: ends, methods, witnesses and plans as they were."""

import pytest

from tests.golden.cases import PLANS, answered, planned, questions
from tests.golden.files import differences, read

WITHIN = 1e-12
"""Machines differ in the last digits of logarithms; on one machine nothing may differ."""

GOLDEN = read()


def without_sets(answer):
    """An answer without the sets of its attack.

    Far from the target a set is the sign of a number near 0, which two machines' matrix products
    may round apart; that the attack attains the lower end is tested where attacks are replayed.
    """
    if isinstance(answer, dict):
        return {name: without_sets(part) for name, part in answer.items() if name != "sets"}
    return [without_sets(part) for part in answer] if isinstance(answer, list) else answer


ASKED = {name: asked for name, *asked in questions()}


def test_every_question_has_a_golden_answer():
    assert list(GOLDEN["leakages"]) == list(ASKED)
    assert list(GOLDEN["plans"]) == list(PLANS)


@pytest.mark.parametrize("model", dict.fromkeys(name.split(":")[0] for name in ASKED))
def test_leakages(model):
    names = [name for name in ASKED if name.split(":")[0] == model]
    found = {name: answered(*ASKED[name]) for name in names}
    wanted = {name: GOLDEN["leakages"][name] for name in names}
    assert not list(differences(without_sets(wanted), without_sets(found), WITHIN))


@pytest.mark.parametrize("name", PLANS)
def test_plans(name):
    before, now = GOLDEN["plans"][name], planned(*PLANS[name])
    assert not list(differences(without_sets(before), without_sets(now), WITHIN))


def test_a_difference_is_seen():
    before = {"ends": [1.0, {"method": "exact"}]}
    assert not list(differences(before, {"ends": [1.0 + 1e-13, {"method": "exact"}]}, WITHIN))
    assert list(differences(before, {"ends": [1.0 + 1e-13, {"method": "exact"}]}))
    assert list(differences(before, {"ends": [1.0, {"method": "group"}]}, WITHIN))
    assert list(differences(before, {"ends": [1.0]}, WITHIN))
