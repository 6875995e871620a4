"""Households with flu."""

import pytest

from undertow.errors import InvalidInput, InvalidModel
from undertow.models.networks import Contagion, household


def test_tables():
    house = household(3, outside=0.1, passed=0.5)
    assert house.states == ("well", "ill")
    assert house.cpds[0] == pytest.approx([0.9, 0.1])
    assert house.cpds[2][1, 1] == pytest.approx([0.9 * 0.25, 1 - 0.9 * 0.25])
    assert house.cpds[2][0, 1] == pytest.approx(house.cpds[2][1, 0])
    assert not house.is_tree
    independent = household(3, outside=0.2, passed=0.0)
    assert independent.joint()[1, 1, 1] == pytest.approx(0.008)


def test_interval():
    flu = Contagion(2, 0.1, (0.2, 0.4))
    assert (flu.length, flu.states) == (2, ("well", "ill"))
    assert flu.network(0.3) == household(2, 0.1, 0.3)
    assert "0.2 to 0.4" in flu.describe()
    assert Contagion.from_dict(flu.to_dict()) == flu
    for passed in ((0.4, 0.2), (0.1,), 0.3, (0.2, 1.2)):
        with pytest.raises(InvalidModel):
            Contagion(2, 0.1, passed)  # type: ignore[arg-type]
    with pytest.raises(InvalidModel, match="needs 'outside'"):
        Contagion.from_dict({"size": 2, "passed": [0.1, 0.2]})


@pytest.mark.parametrize(
    "arguments", [(0, 0.1, 0.1), (13, 0.1, 0.1), (2, 1.1, 0.1), (2, 0.1, -0.1)]
)
def test_refusals(arguments):
    with pytest.raises((InvalidInput, InvalidModel)):
        household(*arguments)
