"""undertow: privacy for data whose records depend on each other.

Say how the records depend on each other, and every number after that is a certified leakage.
Public names are loaded when first used, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from undertow._version import __version__

if TYPE_CHECKING:
    from undertow.adversaries import Adversary, Window
    from undertow.auditing.attacking import attack
    from undertow.auditing.auditor import Audit, audit
    from undertow.auditing.verdicts import Attack
    from undertow.bounds.engine import leakage
    from undertow.certificate import Leakage, Witness
    from undertow.certifying.checking import verify
    from undertow.certifying.document import Certificate
    from undertow.certifying.writing import certify
    from undertow.channels import RandomizedResponse, Redaction, XorNoise
    from undertow.data.spark import spark_session
    from undertow.data.table import Data
    from undertow.estimation import estimate
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
    from undertow.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, MetricDP
    from undertow.models.attractive import Attractiveness, is_attractive
    from undertow.models.chain_classes import ChainBox, MixingClass
    from undertow.models.fitting import FittedChain
    from undertow.models.gaussian import GaussianClass, MultivariateGaussian
    from undertow.models.groups import Groups
    from undertow.models.hidden_chain import HiddenChain
    from undertow.models.markov import MarkovChain
    from undertow.models.network import BayesianNetwork
    from undertow.models.pedigree import Pedigree
    from undertow.models.private_fits import PrivateFit
    from undertow.models.second_order import SecondOrderChain
    from undertow.models.sets import ModelSet
    from undertow.plan import Plan
    from undertow.planning.budget import dp_budget
    from undertow.planning.comparison import Comparison, compare
    from undertow.planning.orders import OrderTable, compare_orders
    from undertow.planning.other_models import Robustness, robustness
    from undertow.planning.persons import PersonBudgets, person_budgets
    from undertow.planning.search import calibrate
    from undertow.queries import (
        BinaryHistogram,
        Count,
        Histogram,
        Linear,
        Mean,
        Query,
        Redacted,
        Series,
        Sum,
    )
    from undertow.releasing import Release, release
    from undertow.sanitizing import redact, sanitize, stream
    from undertow.selections import Selection, TopK
    from undertow.tabulated import TabulatedNoise
    from undertow.transitions import Transitions

_HOMES = {
    "Adversary": "adversaries",
    "ApproximateDP": "guarantees",
    "Attack": "auditing.verdicts",
    "Attractiveness": "models.attractive",
    "Audit": "auditing.auditor",
    "BayesianNetwork": "models.network",
    "BinaryHistogram": "queries",
    "Certificate": "certifying.document",
    "ChainBox": "models.chain_classes",
    "Comparison": "planning.comparison",
    "Count": "queries",
    "Data": "data.table",
    "DiscreteGaussian": "mechanisms",
    "DiscreteLaplace": "mechanisms",
    "FittedChain": "models.fitting",
    "GDP": "guarantees",
    "Gaussian": "mechanisms",
    "GaussianClass": "models.gaussian",
    "Groups": "models.groups",
    "HiddenChain": "models.hidden_chain",
    "Histogram": "queries",
    "Laplace": "mechanisms",
    "Leakage": "certificate",
    "Ledger": "ledger.book",
    "Linear": "queries",
    "MarkovChain": "models.markov",
    "Mean": "queries",
    "MetricDP": "mechanisms",
    "MixingClass": "models.chain_classes",
    "ModelSet": "models.sets",
    "MultivariateGaussian": "models.gaussian",
    "OrderTable": "planning.orders",
    "Pedigree": "models.pedigree",
    "PersonBudgets": "planning.persons",
    "Plan": "plan",
    "PrivateFit": "models.private_fits",
    "Profile": "guarantees",
    "PureDP": "guarantees",
    "Query": "queries",
    "RandomizedResponse": "channels",
    "Redacted": "queries",
    "Redaction": "channels",
    "Release": "releasing",
    "Robustness": "planning.other_models",
    "SecondOrderChain": "models.second_order",
    "Selection": "selections",
    "Series": "queries",
    "Sum": "queries",
    "TabulatedNoise": "tabulated",
    "TopK": "selections",
    "Transitions": "transitions",
    "Window": "adversaries",
    "Witness": "certificate",
    "XorNoise": "channels",
    "ZCDP": "guarantees",
    "attack": "auditing.attacking",
    "audit": "auditing.auditor",
    "calibrate": "planning.search",
    "certify": "certifying.writing",
    "compare": "planning.comparison",
    "compare_orders": "planning.orders",
    "dp_budget": "planning.budget",
    "estimate": "estimation",
    "from_opendp": "guarantees",
    "from_tumult": "guarantees",
    "is_attractive": "models.attractive",
    "leakage": "bounds.engine",
    "person_budgets": "planning.persons",
    "redact": "sanitizing",
    "release": "releasing",
    "robustness": "planning.other_models",
    "sanitize": "sanitizing",
    "spark_session": "data.spark",
    "stream": "sanitizing",
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
