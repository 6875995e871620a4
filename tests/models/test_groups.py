"""Groups of records that may depend on each other in any way."""

import dataclasses

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput
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


def test_groups_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ut.Groups(4).size = 2  # type: ignore[misc]


@pytest.mark.parametrize("size", [1, 4, 10**9])
def test_groups_survive_a_file(size):
    assert model_from_dict(ut.Groups(size).to_dict()) == ut.Groups(size)
