"""undertow: privacy for data whose records depend on each other.

Say how the records depend on each other, and every number after that is a certified leakage.
Public names are loaded when first used, so that importing the package stays cheap. Further names
are those of `undertow.mechanisms`, `undertow.models`, `undertow.diagnostics` and
`undertow.integrations`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from undertow._version import __version__

if TYPE_CHECKING:
    from undertow import diagnostics as diagnostics
    from undertow import errors as errors
    from undertow import integrations as integrations
    from undertow import mechanisms as mechanisms
    from undertow import models as models
    from undertow.adversaries import Adversary
    from undertow.auditing.attacking import attack
    from undertow.auditing.auditor import audit
    from undertow.bounds.engine import leakage
    from undertow.certifying.checking import verify
    from undertow.certifying.writing import certify
    from undertow.data.table import Data
    from undertow.guarantees import GDP, ZCDP, ApproximateDP, Profile, PureDP
    from undertow.ledger.book import Ledger
    from undertow.mechanisms import (
        DiscreteGaussian,
        DiscreteLaplace,
        Gaussian,
        Laplace,
        MetricDP,
        RandomizedResponse,
        Redaction,
        XorNoise,
    )
    from undertow.models.chains import MarkovChain
    from undertow.models.fitting.auto import fit
    from undertow.models.gaussian import MultivariateGaussian
    from undertow.models.groups import Groups
    from undertow.models.hidden import HiddenChain
    from undertow.models.networks import BayesianNetwork
    from undertow.models.pedigrees import Pedigree
    from undertow.models.sets import ModelSet
    from undertow.plan import Plan
    from undertow.planning.budget import dp_budget
    from undertow.planning.calibrate import calibrate
    from undertow.planning.compare import compare
    from undertow.queries import (
        Count,
        Histogram,
        Linear,
        Mean,
        Query,
        Redacted,
        Series,
        Sum,
        TopK,
        Transitions,
    )
    from undertow.releasing.estimate import estimate
    from undertow.releasing.request import release
    from undertow.releasing.series import sanitize
    from undertow.secrets import Pairs, Person, Records, Window

_HOMES = {
    "Adversary": "adversaries",
    "ApproximateDP": "guarantees",
    "BayesianNetwork": "models.networks",
    "Count": "queries",
    "Data": "data.table",
    "DiscreteGaussian": "mechanisms",
    "DiscreteLaplace": "mechanisms",
    "GDP": "guarantees",
    "Gaussian": "mechanisms",
    "Groups": "models.groups",
    "HiddenChain": "models.hidden",
    "Histogram": "queries",
    "Laplace": "mechanisms",
    "Ledger": "ledger.book",
    "Linear": "queries",
    "MarkovChain": "models.chains",
    "Mean": "queries",
    "MetricDP": "mechanisms",
    "ModelSet": "models.sets",
    "MultivariateGaussian": "models.gaussian",
    "Pairs": "secrets",
    "Pedigree": "models.pedigrees",
    "Person": "secrets",
    "Plan": "plan",
    "Profile": "guarantees",
    "PureDP": "guarantees",
    "Query": "queries",
    "RandomizedResponse": "mechanisms",
    "Records": "secrets",
    "Redacted": "queries",
    "Redaction": "mechanisms",
    "Series": "queries",
    "Sum": "queries",
    "TopK": "queries",
    "Transitions": "queries",
    "Window": "secrets",
    "XorNoise": "mechanisms",
    "ZCDP": "guarantees",
    "attack": "auditing.attacking",
    "audit": "auditing.auditor",
    "calibrate": "planning.calibrate",
    "certify": "certifying.writing",
    "compare": "planning.compare",
    "dp_budget": "planning.budget",
    "estimate": "releasing.estimate",
    "fit": "models.fitting.auto",
    "leakage": "bounds.engine",
    "release": "releasing.request",
    "sanitize": "releasing.series",
    "verify": "certifying.checking",
}

__all__ = [
    "GDP",
    "ZCDP",
    "Adversary",
    "ApproximateDP",
    "BayesianNetwork",
    "Count",
    "Data",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Groups",
    "HiddenChain",
    "Histogram",
    "Laplace",
    "Ledger",
    "Linear",
    "MarkovChain",
    "Mean",
    "MetricDP",
    "ModelSet",
    "MultivariateGaussian",
    "Pairs",
    "Pedigree",
    "Person",
    "Plan",
    "Profile",
    "PureDP",
    "Query",
    "RandomizedResponse",
    "Records",
    "Redacted",
    "Redaction",
    "Series",
    "Sum",
    "TopK",
    "Transitions",
    "Window",
    "XorNoise",
    "__version__",
    "attack",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "dp_budget",
    "estimate",
    "fit",
    "leakage",
    "release",
    "sanitize",
    "verify",
]

_MODULES = ("diagnostics", "errors", "integrations", "mechanisms", "models")
"""Modules whose names are part of the surface: ``ut.mechanisms.TabulatedNoise``."""

if not TYPE_CHECKING:  # else every name would be taken to be one of these

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"undertow.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'undertow' has no attribute {name!r}")
        value = getattr(import_module(f"undertow.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted((*__all__, *_MODULES))
