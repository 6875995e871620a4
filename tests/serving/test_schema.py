"""The service against its own schema: what schemathesis makes of it is answered as it says."""

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

import undertow as ut
from undertow.serving.accounts import Accounts, Clients
from undertow.serving.ledger_api import ServiceSettings, create_service

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
EXAMPLES = 12
"""Requests of each operation, of each kind."""
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[*HealthCheck],
)  # fmt: skip
OPERATIONS = [
    ("GET", "/v1/health"),
    ("GET", "/v1/datasets"),
    ("GET", "/v1/datasets/{dataset}"),
    ("POST", "/v1/datasets/{dataset}/left"),
    ("GET", "/v1/datasets/{dataset}/releases"),
    ("GET", "/v1/datasets/{dataset}/releases/{release_id}"),
    ("PUT", "/v1/datasets/{dataset}/releases/{release_id}"),
    ("POST", "/v1/datasets/{dataset}/releases/{release_id}/begin"),
    ("POST", "/v1/datasets/{dataset}/releases/{release_id}/confirm"),
    ("POST", "/v1/datasets/{dataset}/releases/{release_id}/cancel"),
    ("PUT", "/v1/datasets/{dataset}/limit"),
    ("POST", "/v1/verify"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A served ledger, its schema as schemathesis reads it, and a token that may do all."""
    where = str(tmp_path_factory.mktemp("served") / "year.db")
    state = pytest.MonkeyPatch()
    state.setenv("UNDERTOW_STATE", f"{where}.state")
    ut.Ledger(where, dataset="w25", model=CHAIN, limit=1.0)
    clients, token = Clients(()).add("all", ("spend", "limit"))
    app = create_service(Accounts(where), lambda: clients, ServiceSettings(("testserver",)))
    yield schemathesis.openapi.from_asgi("/openapi.json", app), token, where
    state.undo()


def test_all_operations_are_tried(served):
    schema, _, _ = served
    found = [(one.ok().method.upper(), one.ok().path) for one in schema.get_all_operations()]
    assert sorted(found) == sorted(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_refusal_is_in_the_schema(served, method, path):
    """With one model for all: what kind, why, and of a budget what is left."""
    answers = served[0].raw_schema["paths"][path][method.lower()]["responses"]
    refusals = {int(code) for code in answers if int(code) >= 400}
    written = method == "PUT" or path.endswith(("/begin", "/confirm", "/cancel", "/verify"))
    wanted = {400, 403, 413, 421, 422, 500}
    wanted |= set() if path == "/v1/health" else {401, 429, 503}
    wanted |= {404} if "{dataset}" in path or path == "/v1/verify" else set()
    wanted |= {409} if written else set()
    assert refusals == wanted
    for code in refusals:
        schema = answers[str(code)]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Refusal"}
        assert answers[str(code)]["description"]


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_those_of_the_schema(served, method, path, mode):
    """Requests that follow the schema, and requests that do not, at data sets there are or not."""
    if mode is GenerationMode.NEGATIVE and path == "/v1/health":  # nothing can be wrong about it
        return
    schema, token, where = served
    answers = []

    @SETTINGS
    @hypothesis.given(schema[path][method].as_strategy(generation_mode=mode), st.booleans())
    def tried(case, known):
        if known and "dataset" in (case.path_parameters or {}):
            case.path_parameters["dataset"] = "w25"
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        answers.append(answer.status_code)
        if answer.status_code == 500:  # entries that were named and are not in the ledger
            assert (path, answer.json()["error"]) == ("/v1/verify", "LedgerDamaged")
            return
        # names follow rules that a schema does not say, so what it allows may be refused
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    tried()
    assert answers
    assert ut.Ledger(where, dataset="w25", create=False).verify()
