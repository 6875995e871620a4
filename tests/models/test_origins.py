"""Where a model comes from is inherited by all that is made of it, and carried by files."""

import copy
import json
import pickle
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.errors import DisclosureWarning, InvalidModel, NoPublicForm, UndertowError
from undertow.models.base import stands_for
from undertow.models.fitting.checks import untested
from undertow.models.fitting.private import PrivateFit
from undertow.models.records import Origin, RecordDescription, weakest
from undertow.models.registry import law_to_dict, model_from_dict, model_to_dict
from undertow.models.second_order import SecondOrderChain
from undertow.plan import checksum

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("idle", "active"))
SERIES = [CHAIN.simulate(600, seed=seed) for seed in range(3)]
ROWS = np.random.default_rng(1).normal(size=(40, 2))
ORDER: list[Origin] = ["hand", "public", "private", "not public"]


def _fit(public, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        return ut.MarkovChain.fit(SERIES, CHAIN.states, public=public, **more)


def _by_context(public):
    return ut.MarkovChain.fit_by_context(
        SERIES, [list("dn" * 300)] * 3, CHAIN.states, public=public
    ).periodic(length=8)


def _hidden(public):
    return ut.HiddenChain.fit(SERIES, CHAIN.states, hidden=1, starts=1, public=public)


FITS = {
    "order one": _fit,
    "order two": lambda public: _fit(public, order=2),
    "from a fit": lambda public: SecondOrderChain.from_fit(_fit(public)),
    "counts": lambda public: ut.MarkovChain.from_counts([[9, 2], [3, 7]], public=public),
    "region": lambda public: _fit(public).region(),
    "plausible": lambda public: _fit(public).plausible(0.9),
    "population": lambda public: _fit(public).population(),
    "context": _by_context,
    "hidden": _hidden,
    "Gaussian": lambda public: ut.MultivariateGaussian.fit(ROWS, public=public),
    "set": lambda public: ut.ModelSet([CHAIN, _fit(True), _fit(public)]),
    "set of sets": lambda public: ut.ModelSet([ut.ModelSet([_fit(public)])]),
}
MADE = {
    "itself": lambda model: model,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "any length": lambda model: model.endless(),
    "file": lambda model: model_from_dict(model_to_dict(model)),
    "law": lambda model: model_from_dict(law_to_dict(model)),
    "backwards": lambda model: model.reverse(),
    "order one": lambda model: model.first_order(),
    "pairs": lambda model: model.pairs(),
    "point": lambda model: model.point(),
    "region": lambda model: stands_for(model),
    "every other record": lambda model: model.every_nth(2),
    "hidden": ut.HiddenChain.of,
    "set": lambda model: ut.ModelSet([model]),
    "records": lambda model: model.with_records(RecordDescription(every="5m")),
    "checks": lambda model: model.with_checks(()),
}


@pytest.mark.filterwarnings("ignore::undertow.errors.DisclosureWarning")
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("public", [True, False])
def test_what_is_made_of_a_fit_has_its_origin(made, public):
    """No way of making one model of another forgets the records that stand behind it."""
    others = {}
    for name, fit in FITS.items():
        with suppress(AttributeError, UndertowError):  # some models have no such form
            others[name] = MADE[made](fit(public))
    origins = {name: other.origin for name, other in others.items() if other is not None}
    assert origins, "no model has such a form: the way tests nothing"
    assert origins == dict.fromkeys(origins, "public" if public else "not public")


def test_the_member_that_discloses_most_decides():
    """Of any two origins a set has the later one of the list."""
    for one in ORDER:
        for other in ORDER:
            both = ut.ModelSet([CHAIN.with_origin(one), CHAIN.with_origin(other)])
            assert both.origin == ORDER[max(ORDER.index(one), ORDER.index(other))]
            assert both.origin == weakest((one, other))
    assert ut.ModelSet([CHAIN]).with_origin("not public").origin == "not public"


def test_a_copy_keeps_all_that_is_known_of_a_model():
    """Saying one thing of a model forgets none of the others."""
    checks, records = untested(True, "order"), RecordDescription(every="5m")
    model = CHAIN.with_records(records).with_checks(checks).with_origin("public")
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (other.records, other.checks, other.origin) == (records, checks, "public")
        assert other == CHAIN
    assert (CHAIN.records, CHAIN.checks, CHAIN.origin) == (RecordDescription(), (), "hand")


def test_a_private_fit_is_private_and_its_class_counts():
    """The region of a fit through noise is private, but not where its class was fitted."""
    noisy = [[6300, 850], [840, 1900]]
    wide = ut.MarkovChain.box([[0.6, 0.01], [0.1, 0.3]], [[0.99, 0.4], [0.7, 0.9]])
    for within, origin in ((None, "private"), (wide, "private"), (_fit(False), "not public")):
        fit = PrivateFit(noisy, level=0.05, scale=80.0, sample_size=10_000, within=within)
        assert (fit.origin, fit.region().origin) == ("private", origin)


def test_files_name_origins_that_there_are():
    """An origin that there is not is refused; one that the checks deny is not believed."""
    unknown: Any = ["public"]
    with pytest.raises(InvalidModel, match="origin of a model"):
        model_from_dict(CHAIN.to_dict() | {"origin": "secret"})
    with pytest.raises(InvalidModel, match="origin of a model"):
        CHAIN.with_origin(unknown)
    tested = model_to_dict(_fit(False))
    assert model_from_dict({**tested, "origin": "hand"}).origin == "not public"
    assert "origin" not in model_to_dict(CHAIN)


def _plan(model):
    return ut.calibrate(ut.Count("active"), model, limit=1.0, method="exchange")


@pytest.mark.parametrize("origin", ORDER)
def test_a_plan_says_whose_it_is(origin):
    """Only a plan on a fit to private records without noise lacks a public form."""
    plan = _plan(CHAIN.with_origin(origin))
    again = ut.Plan.from_json(plan.to_json())
    curators = origin == "not public"
    for one in (plan, again):
        assert (one.origin, one.audience) == (origin, "curator" if curators else "public")
    assert ('"audience": "curator"' in plan.to_json()) == curators
    assert ("this plan is the curator's" in plan.guarantee()) == curators
    if not curators:
        assert plan.public() is plan
        return
    for paper in (
        plan.public,
        lambda: ut.certify(plan),
        lambda: ut.certify(plan.noise, plan.model),
    ):
        with pytest.raises(NoPublicForm, match="private"):
            paper()


def test_checks_of_private_records_make_a_plan_the_curators():
    """A model that was stripped of its origin, but not of what was computed from the records."""
    plan = _plan(CHAIN.with_checks(untested(False, "order")))
    assert plan.audience == "curator"


def test_a_plan_file_that_lost_its_mark_is_refused():
    """The mark and the origin of the model must agree."""
    body = json.loads(_plan(CHAIN.with_origin("not public")).to_json())
    del body["audience"]
    body["checksum"] = checksum(body)
    with pytest.raises(ut.errors.InvalidPlan, match="curator"):
        ut.Plan.from_json(json.dumps(body))


@pytest.mark.parametrize("origin", ORDER)
def test_reports_say_whose_they_are(origin):
    """The first thing that a curator's report says, in every form; no other report says it."""
    out = ut.release(_plan(CHAIN.with_origin(origin)), SERIES[0])
    curators = origin == "not public"
    report = out.report()
    for text in (report.text(), report.html(), str(out)):
        assert ("For the curator only: " in text) == curators
        assert ("fit --private" in " ".join(text.split())) == curators
    assert report.to_dict()["audience"] == ("curator" if curators else "public")
    assert all(("audience" in row) == curators for row in report.facts.rows())
    if curators:
        assert report.text().split("\n\n")[1].startswith("For the curator only: ")
        assert "curator's" in report.to_dict()["promise"]["words"]
        with pytest.raises(NoPublicForm):
            report.public()
    else:
        assert report.public() is report


def test_a_public_report_holds_nothing_else_of_private_records():
    """Public papers of every origin: no basis of a check is the private records."""
    private = PrivateFit(
        [[6300, 850], [840, 1900]], CHAIN.states, level=0.05, scale=80.0, sample_size=10_000
    )
    for model in (CHAIN, _fit(True), private.region()):
        report = ut.release(_plan(model), SERIES[0]).report().public()
        assert all(check["basis"] != "not private" for check in report.to_dict()["checks"])
        assert "NOT PRIVATE" not in report.text()


def test_accounts_take_a_law_from_whoever_made_it(tmp_path):
    """Levels are exchanged by the law: the same chain by hand and by a fit is one account."""
    fitted = _fit(False).point()
    by_hand = ut.MarkovChain(fitted.transition, fitted.states)
    book = ut.Ledger(tmp_path / "a.db", "w", model=fitted, limit=1.0)
    assert ut.Ledger(tmp_path / "a.db", "w").model.origin == "not public"
    again = ut.Ledger(tmp_path / "a.db", "w", model=by_hand, limit=1.0)
    assert again.model.origin == "not public"
    plan = ut.calibrate(ut.Count("active"), by_hand, limit=0.5, method="exchange")
    assert ut.release(plan, SERIES[0], ledger=book).entry is not None


def test_an_account_that_a_private_fit_narrowed_has_public_papers(tmp_path):
    """The region went through noise: planned now, or after the account was opened again."""
    wide = ut.MarkovChain.box([[0.6, 0.05], [0.1, 0.4]], [[0.95, 0.4], [0.6, 0.9]], CHAIN.states)
    for name, stated, origin in (
        ("hand", wide, "private"),
        ("fitted", wide.with_origin("not public"), "not public"),
    ):
        book = ut.Ledger(tmp_path / f"{name}.db", "w", model=stated, limit=1.0, memory=False)
        records = CHAIN.simulate(10_000, seed=1)
        fit = ut.MarkovChain.fit(records, private=0.06, ledger=book)
        assert fit.origin == "private"
        book.narrow(fit.release_id)
        again = ut.Ledger(tmp_path / f"{name}.db", "w", memory=False)
        assert book.model.origin == again.model.origin == origin
        assert again.plan(ut.Count("active")).origin == origin
