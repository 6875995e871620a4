"""undertow: privacy for data whose records depend on each other.

Say how the records depend on each other, and every number after that is a certified leakage.
Public names are loaded when first used, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from undertow._version import __version__

if TYPE_CHECKING:
    from undertow.adversaries import Adversary, Window
    from undertow.auditing.attacking import Attack, attack
    from undertow.auditing.auditor import Audit, audit
    from undertow.bounds.engine import leakage
    from undertow.certificate import Leakage, Witness
    from undertow.certifying.checking import verify
    from undertow.certifying.document import Certificate
    from undertow.certifying.writing import certify
    from undertow.data.readers.spark import spark_session
    from undertow.data.table import Data
    from undertow.diagnostics.orders import OrderTable, compare_orders
    from undertow.diagnostics.persons import PersonBudgets, person_budgets
    from undertow.diagnostics.robustness import Robustness, robustness
    from undertow.guarantees import (
        GDP,
        ZCDP,
        ApproximateDP,
        Profile,
        PureDP,
        from_opendp,
        from_tumult,
    )
    from undertow.ledger.book import Ledger
    from undertow.mechanisms import (
        DiscreteGaussian,
        DiscreteLaplace,
        Gaussian,
        Laplace,
        MetricDP,
        RandomizedResponse,
        Redaction,
        TabulatedNoise,
        XorNoise,
    )
    from undertow.models.attractive import Attractiveness, is_attractive
    from undertow.models.chains import MarkovChain
    from undertow.models.classes import ChainBox, MixingClass
    from undertow.models.fitting.fit import FittedChain
    from undertow.models.fitting.private import PrivateFit
    from undertow.models.gaussian import GaussianClass, MultivariateGaussian
    from undertow.models.groups import Groups
    from undertow.models.hidden import HiddenChain
    from undertow.models.networks import BayesianNetwork
    from undertow.models.pedigrees import Pedigree
    from undertow.models.second_order import SecondOrderChain
    from undertow.models.sets import ModelSet
    from undertow.plan import Plan
    from undertow.planning.budget import dp_budget
    from undertow.planning.calibrate import calibrate
    from undertow.planning.compare import Comparison, compare
    from undertow.queries import (
        BinaryHistogram,
        Count,
        Histogram,
        Linear,
        Mean,
        Query,
        Redacted,
        Selection,
        Series,
        Sum,
        TopK,
        Transitions,
    )
    from undertow.releasing.estimate import estimate
    from undertow.releasing.request import Release, release
    from undertow.releasing.series import redact, sanitize, stream

_HOMES = {
    "Adversary": "adversaries",
    "ApproximateDP": "guarantees",
    "Attack": "auditing.attacking",
    "Attractiveness": "models.attractive",
    "Audit": "auditing.auditor",
    "BayesianNetwork": "models.networks",
    "BinaryHistogram": "queries",
    "Certificate": "certifying.document",
    "ChainBox": "models.classes",
    "Comparison": "planning.compare",
    "Count": "queries",
    "Data": "data.table",
    "DiscreteGaussian": "mechanisms",
    "DiscreteLaplace": "mechanisms",
    "FittedChain": "models.fitting.fit",
    "GDP": "guarantees",
    "Gaussian": "mechanisms",
    "GaussianClass": "models.gaussian",
    "Groups": "models.groups",
    "HiddenChain": "models.hidden",
    "Histogram": "queries",
    "Laplace": "mechanisms",
    "Leakage": "certificate",
    "Ledger": "ledger.book",
    "Linear": "queries",
    "MarkovChain": "models.chains",
    "Mean": "queries",
    "MetricDP": "mechanisms",
    "MixingClass": "models.classes",
    "ModelSet": "models.sets",
    "MultivariateGaussian": "models.gaussian",
    "OrderTable": "diagnostics.orders",
    "Pedigree": "models.pedigrees",
    "PersonBudgets": "diagnostics.persons",
    "Plan": "plan",
    "PrivateFit": "models.fitting.private",
    "Profile": "guarantees",
    "PureDP": "guarantees",
    "Query": "queries",
    "RandomizedResponse": "mechanisms",
    "Redacted": "queries",
    "Redaction": "mechanisms",
    "Release": "releasing.request",
    "Robustness": "diagnostics.robustness",
    "SecondOrderChain": "models.second_order",
    "Selection": "queries",
    "Series": "queries",
    "Sum": "queries",
    "TabulatedNoise": "mechanisms",
    "TopK": "queries",
    "Transitions": "queries",
    "Window": "adversaries",
    "Witness": "certificate",
    "XorNoise": "mechanisms",
    "ZCDP": "guarantees",
    "attack": "auditing.attacking",
    "audit": "auditing.auditor",
    "calibrate": "planning.calibrate",
    "certify": "certifying.writing",
    "compare": "planning.compare",
    "compare_orders": "diagnostics.orders",
    "dp_budget": "planning.budget",
    "estimate": "releasing.estimate",
    "from_opendp": "guarantees",
    "from_tumult": "guarantees",
    "is_attractive": "models.attractive",
    "leakage": "bounds.engine",
    "person_budgets": "diagnostics.persons",
    "redact": "releasing.series",
    "release": "releasing.request",
    "robustness": "diagnostics.robustness",
    "sanitize": "releasing.series",
    "spark_session": "data.readers.spark",
    "stream": "releasing.series",
    "verify": "certifying.checking",
}

__all__ = [
    "GDP",
    "ZCDP",
    "Adversary",
    "ApproximateDP",
    "Attack",
    "Attractiveness",
    "Audit",
    "BayesianNetwork",
    "BinaryHistogram",
    "Certificate",
    "ChainBox",
    "Comparison",
    "Count",
    "Data",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FittedChain",
    "Gaussian",
    "GaussianClass",
    "Groups",
    "HiddenChain",
    "Histogram",
    "Laplace",
    "Leakage",
    "Ledger",
    "Linear",
    "MarkovChain",
    "Mean",
    "MetricDP",
    "MixingClass",
    "ModelSet",
    "MultivariateGaussian",
    "OrderTable",
    "Pedigree",
    "PersonBudgets",
    "Plan",
    "PrivateFit",
    "Profile",
    "PureDP",
    "Query",
    "RandomizedResponse",
    "Redacted",
    "Redaction",
    "Release",
    "Robustness",
    "SecondOrderChain",
    "Selection",
    "Series",
    "Sum",
    "TabulatedNoise",
    "TopK",
    "Transitions",
    "Window",
    "Witness",
    "XorNoise",
    "__version__",
    "attack",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "compare_orders",
    "dp_budget",
    "estimate",
    "from_opendp",
    "from_tumult",
    "is_attractive",
    "leakage",
    "person_budgets",
    "redact",
    "release",
    "robustness",
    "sanitize",
    "spark_session",
    "stream",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'undertow' has no attribute {name!r}")
    value = getattr(import_module(f"undertow.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
