"""Plan files from anywhere: read strictly, or refused with a typed error."""

import json
import math
import random
from functools import cache
from typing import Any

import pytest

import undertow as ut
from tests.plan_gallery import EVERY, plan
from tests.plan_mutations import PUBLISHED, mutated, signed
from undertow.errors import InvalidInput, InvalidPlan, NotSupported
from undertow.planning.coverage import check_proof
from undertow.secrets import ONE_RECORD


@cache
def body_of(name: str) -> Any:
    """What the file of a plan says; not to be changed."""
    return json.loads(plan(name).to_json())


def changed(name: str, path: str, value: Any) -> str:
    """The file of a plan with one place changed, and the checksum that fits it."""
    body = json.loads(json.dumps(body_of(name)))
    *way, last = path.split(".")
    inner: Any = body
    for key in way:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value
    return signed(body)


def refused(text: str, match: str | None = None) -> None:
    with pytest.raises(InvalidPlan, match=match):
        ut.Plan.from_json(text)


@pytest.mark.parametrize("name", EVERY)
def test_every_kind_of_plan_comes_back(name):
    made = plan(name)
    again = ut.Plan.from_json(made.to_json())
    assert again == made
    assert again.to_json() == made.to_json()
    assert again.fingerprint() == made.fingerprint()


# --- one place at a time --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_every_field_is_needed_and_none_is_passed_over(name):
    """Leaving out any field of any object but the model's own is refused; so is one more."""
    body = body_of(name)
    for key in body:
        if key not in ("checksum", "missing"):  # without it a plan claims the most: check_proof
            refused(signed({k: v for k, v in body.items() if k != key}))
    refused(signed({**body, "note": "harmless"}), "no field 'note'")
    for part in ("leakage", "query", "channel", "model"):
        if part in body:
            refused(signed({**body, part: {**body[part], "extra": 1}}), "no field 'extra'")
    for part in ("leakage", "query", "channel"):
        for key in body.get(part, ()):
            less = {k: v for k, v in body[part].items() if k != key}
            refused(signed({**body, part: less}))


NOT_NUMBERS: list[Any] = [True, False, None, "1.0", [1.0], {}, 10**400, "NaN"]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("exact", "scale"),
        ("exact", "limit"),
        ("exact", "leakage.lower"),
        ("exact", "leakage.upper"),
        ("exact", "model.transition.0.0"),
        ("exact steps", "model.start.0"),
        ("exact gaussian", "model.covariance.0.0"),
        ("exact gaussian", "query.weights.0"),
        ("exact gaussian", "query.spread"),
        ("exact network", "model.tables.0.0"),
        ("exact pedigree", "model.allele_frequency"),
        ("exchange sum", "query.upper"),
        ("exchange box", "model.lower.0.0"),
        ("quilt-approx", "model.gap"),
        ("group contagion", "model.outside"),
        ("flips", "channel.matrix.0.0"),
        ("flips", "measures.expected flips"),
        ("xor", "channel.rho0"),
        ("redaction", "channel.probabilities.0.0"),
    ],
)
def test_what_is_no_number_is_refused(name, path, value):
    refused(changed(name, path, value))


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(value):
    text = json.dumps(body_of("exact"))
    for number in (repr(body_of("exact")["scale"]), repr(body_of("exact")["leakage"]["upper"])):
        refused(text.replace(number, value), "a number that JSON does not have")


@pytest.mark.parametrize("value", [True, 2.0, "2", None, -1, 10**30, [2]], ids=repr)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("exact adversary", "leakage.against.target"),
        ("exact adversary", "leakage.against.known.0"),
        ("exact adversary", "leakage.witness.target"),
        ("exact adversary", "leakage.witness.length"),
        ("quilt secrets", "leakage.secret.records.0"),
        ("groups", "model.size"),
        ("redaction", "channel.protect.0"),
        ("exchange sum", "query.steps"),
    ],
)
def test_what_is_no_record_or_count_is_refused(name, path, value):
    refused(changed(name, path, value))


WRONG: dict[str, tuple[str, str, Any]] = {
    "a record beyond the series": ("exact adversary", "leakage.against.known", [0, 5]),
    "the target among the known": ("exact adversary", "leakage.against.known", [0, 1]),
    "a protected record beyond the series": ("quilt secrets", "leakage.secret.records", [9]),
    "a pair of one state": ("quilt secrets", "leakage.secret.pairs", [["a"]]),
    "a pair of unknown states": ("quilt secrets", "leakage.secret.pairs", [["a", "z"]]),
    "a state that is counted but unknown": ("exact", "query.states", ["running"]),
    "a state that is a list": ("exact", "query.states", [["active"]]),
    "states of one name": ("exact", "model.states", ["active", "active"]),
    "a state that is nothing": ("exact", "model.states", ["active", None]),
    "one state too many": ("exact", "model.states", ["a", "active", "c"]),
    "a witness beyond its series": ("exact", "leakage.witness.target", 10**6),
    "a witness of unknown values": ("exact", "leakage.witness.value", "running"),
    "a witness in a longer series": ("exact adversary", "leakage.witness.length", 6),
    "a witness that is a text": ("exact", "leakage.witness", "yes"),
    "an unknown adversary": ("exact", "leakage.against", "nobody"),
    "ends in the wrong order": ("exact", "leakage.lower", 1.5),
    "a negative end": ("exact", "leakage.lower", -0.5),
    "a leakage above the promise": ("exact", "leakage.upper", 1.0000001),
    "a promise below the leakage": ("exact", "limit", 0.5),
    "noise without error bars": ("exact", "scale", 1e308),
    "no noise": ("exact", "scale", 5e-324),
    "no promise": ("exact", "limit", 0.0),
    "an unknown method": ("exact", "method", "magic"),
    "a method for series": ("exact", "method", "xor"),
    "a method for answers": ("flips", "method", "quilt"),
    "a person's plan by another method": ("exact", "leakage.secret", {"kind": "person"}),
    "a person's series": ("flips", "leakage.secret", {"kind": "person"}),
    "an unknown secret": ("exact", "leakage.secret.kind", "family"),
    "continuous noise on a count": ("exact", "noise", "laplace"),
    "discrete noise on a sum": ("exchange sum", "noise", "discrete-laplace"),
    "an unknown shape": ("exact", "leakage.valid_for", "everything"),
    "escapes in an assumption": ("exact", "leakage.assumptions", ["\x1b[31mtrust me"]),
    "a text without end": ("exact", "leakage.citation", "x" * 10**6),
    "assumptions in one text": ("exact", "leakage.assumptions", "none"),
    "a share above one": ("flips", "measures.expected flips", 1.5),
    "an unknown measure": ("flips", "measures", {"beauty": 1.0}),
    "a channel for three states": ("flips", "channel.matrix", [[1, 0], [0, 1], [1, 0]]),
    "a channel that loses mass": ("flips", "channel.matrix", [[0.5, 0.4], [0.5, 0.5]]),
    "outputs of one name": ("flips", "channel.outputs", ["a", "a"]),
    "a redaction of another length": ("redaction", "channel.probabilities", [[1, 1]] * 3),
    "a note with a line break": ("exchange set", "model.note", "two\ngood days"),
    "a series without end": ("exchange mean", "model.length", 10**15),
    "a model within models": ("exact", "model", {"kind": "set", "models": [[]]}),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_does_not_fit_together_is_refused(fault):
    refused(changed(*WRONG[fault]))


def test_a_field_that_is_named_twice_is_refused():
    text = plan("exact").to_json()
    refused(text.replace('"limit": 1.0', '"limit": 9.0, "limit": 1.0'), "names a field twice")
    refused(text.replace('"kind": "count"', '"kind": "x", "kind": "count"'), "names a field twice")


def test_files_that_are_too_large_or_too_deep_are_refused():
    refused(" " * (64 * 2**20 + 1), "larger than 64 MiB")
    deep: Any = body_of("exact")["model"]
    for _ in range(60):
        deep = {"kind": "set", "models": [deep]}
    refused(changed("exact", "model", deep), "more than 100 deep")
    table: Any = 0.5
    for _ in range(90):
        table = [table]
    refused(changed("exact", "model.transition", table))


def test_an_older_file_is_refused_by_its_version():
    refused(
        signed({**body_of("group"), "version": 1}), "version '1', this undertow reads version 2"
    )


# --- many places at random ------------------------------------------------------------------------


def examine(seed: int, count: int) -> tuple[int, int]:
    """Return how many mutated files were refused and accepted; any crash or broken guarantee fails.

    An accepted plan is judged by the leakage of its noise, computed apart from its method: the
    attack that `leakage` finds must stay within the guarantee.
    """
    draw, bodies = random.Random(seed), [body_of(name) for name in EVERY]
    refusals, accepted = 0, 0
    for _ in range(count):
        text = mutated(body_of(draw.choice(EVERY)), draw, bodies)
        try:
            found = ut.Plan.from_json(text)
            assert str(found)
            assert found.to_json()
            proved = check_proof(found)
        except InvalidInput:
            refusals += 1
            continue
        accepted += 1
        assert 0 <= proved.lower <= proved.upper < math.inf
        if found.method in PUBLISHED:
            continue
        assert max(proved.upper, found.leakage.upper) <= found.limit
        if found.unit == "record" and found.leakage.secret == ONE_RECORD:
            try:
                attack = ut.leakage(found.mechanism, found.model, found.against)
            except (NotSupported, InvalidInput):  # no bound, or a channel that says nothing at all
                continue
            assert attack.lower <= found.limit
    return refusals, accepted


def test_mutated_files_are_refused_or_keep_their_guarantee():
    refusals, accepted = examine(seed=14, count=300)
    assert refusals > 200
    assert accepted > 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_mutated_files_are_refused_or_keep_their_guarantee(seed):
    refusals, accepted = examine(seed, 3000)
    assert refusals + accepted == 3000
    assert accepted > 200


# --- for people -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_a_printed_plan_says_what_matters(name):
    made = plan(name)
    said = str(made)
    rows = dict(line.split(None, 1) for line in said.splitlines())
    assert rows["guarantee"] == made.guarantee()
    assert rows["model"] == made.model.describe()
    assert rows["method"].startswith(f"{made.method}, ")
    assert ("as published" in rows["method"]) == (made.method in PUBLISHED)
    assert ("all records of one person" in rows["protects"]) == (made.unit == "person")
    assert ("noise" in rows) == ("error" in rows) == (not made.measures)
    assert len(repr(made)) < 400
    assert "\n" not in repr(made)


def test_a_printed_plan_says_which_shapes_are_proved():
    assert "one answer about whole series" in str(plan("exact"))
    assert "any windows and groups" in str(plan("exchange"))
    assert "'active'" in str(plan("exact")).splitlines()[0]
