"""Tests here change what proofs are made of: none may remember another's."""

import pytest

from undertow.planning import chains, dependent, gaussian, networks
from undertow.planning.questions import Remembered


def _forget():
    for module in (chains, dependent, gaussian, networks):
        for found in vars(module).values():
            if isinstance(found, Remembered):
                found.forget()


@pytest.fixture(autouse=True)
def nothing_remembered():
    _forget()
    yield
    _forget()
