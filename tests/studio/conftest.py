"""A studio in the process of the test, and a browser that has opened it."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.studio.inline import Inline
from undertow_studio.app import create_app
from undertow_studio.studio import Settings

ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture
def opened():
    """Return how to open a studio: a client that has exchanged the token, and the studio."""
    clients = []

    def open_studio(workers=None, **settings):
        told = Settings(port=8000, **settings)
        guard = create_app(told, workers or Inline())
        client = TestClient(guard, base_url=ORIGIN, headers={"Origin": ORIGIN})
        client.__enter__()
        clients.append(client)
        assert client.get("/", params={"token": told.token}).status_code == 200
        inner: Any = guard.app
        return client, inner.state.studio

    yield open_studio
    for client in clients:
        client.__exit__(None, None, None)


def found(pattern, text):
    """Return what a pattern finds in a text, which must be there."""
    seen = re.search(pattern, text)
    assert seen is not None, text
    return seen[1]


@pytest.fixture
def client(opened):
    return opened()[0]
