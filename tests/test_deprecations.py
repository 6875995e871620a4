"""Names that were given up still work, and say what took their place."""

import json
from typing import Any

import pytest

import undertow as ut
from tests.cli.calls import call
from undertow.plan import checksum

UNTYPED: Any = ut
CHAIN = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=6)
ASKED = ("--transition", "0.9,0.1;0.2,0.8", "--length", "6", "--count", "1")


@pytest.mark.parametrize(
    "ask",
    [
        lambda name: UNTYPED.calibrate(ut.Count(1), CHAIN, **{name: 1.0}),
        lambda name: UNTYPED.dp_budget(CHAIN, **{name: 1.0}),
        lambda name: UNTYPED.compare(ut.Count(1), CHAIN, **{name: 1.0}).best,
    ],
    ids=["calibrate", "dp_budget", "compare"],
)
def test_a_limit_may_be_called_epsilon_with_a_warning(ask):
    with pytest.warns(DeprecationWarning, match="limit on leakage.*limit="):
        old = ask("epsilon")
    assert old == ask("limit")


def test_a_limit_has_one_name_at_a_time():
    with pytest.raises(TypeError, match="epsilon"):
        ut.dp_budget(CHAIN, limit=1.0, epsilon=1.0)  # type: ignore[call-overload]


def test_the_limit_of_a_plan():
    plan = ut.calibrate(ut.Count(1), CHAIN, limit=2.0)
    with pytest.warns(DeprecationWarning, match=r"plan\.limit"):
        assert plan.epsilon == plan.limit == 2.0


def test_plan_files_of_old():
    plan = ut.calibrate(ut.Count(1), CHAIN, limit=2.0)
    body = json.loads(plan.to_json())
    old = {"epsilon" if key == "limit" else key: value for key, value in body.items()}
    old["checksum"] = checksum(old)
    assert ut.Plan.from_json(json.dumps(old)) == plan


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_the_option_of_old(command):
    told = call(command, *ASKED, "--limit", "1", "--method", "exact") if command == "plan" else None
    old = call(command, *ASKED, "--epsilon", "1", *(("--method", "exact") if told else ()))
    assert old.exit_code == 0
    assert "--epsilon is deprecated" in old.stderr
    assert told is None or told.stdout == old.stdout
    for wrong in ((), ("--limit", "1", "--epsilon", "1")):
        result = call(command, *ASKED, *wrong)
        assert result.exit_code == 2
        assert "--limit 1" in result.stderr


def test_what_an_audit_refutes_and_other_models_keep_is_a_limit():
    plan = ut.calibrate(ut.Count(1), CHAIN, limit=2.0)
    with pytest.warns(DeprecationWarning, match="limit on leakage.*limit="):
        old = UNTYPED.audit(plan, 1000, seed=1, promise=9.0)
    assert old == ut.audit(plan, 1000, seed=1, limit=9.0)
    for found, value in ((old, 9.0), (ut.robustness(plan, factors=(0.8, 1.25)), 2.0)):
        with pytest.warns(DeprecationWarning, match=r"promise is deprecated.*\.limit"):
            assert found.promise == found.limit == value


def test_the_option_of_audits_of_old(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(ut.calibrate(ut.Count(1), CHAIN, limit=2.0).to_json())
    asked = ("audit", file, "--draws", "1000", "--seed", "1", "--json")
    old, new = (call(*asked, option, "9") for option in ("--promise", "--limit"))
    assert (old.exit_code, old.stdout) == (0, new.stdout)
    assert "--promise is deprecated" in old.stderr
    assert "--promise" not in call("audit", "--help").stdout
    assert call(*asked, "--promise", "9", "--limit", "9").exit_code == 2
