"""Bounds on what a stuck sensor leaks: the one module of a new model."""

from dataclasses import replace

from tests.extending.sensor import StuckSensor
from undertow.adversaries import Against
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.metric import refused
from undertow.bounds.protocol import AnswerProver, Prover
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, MetricDP


def leakage(mechanism: Levelled | MetricDP, model: StuckSensor, against: Against) -> Leakage:
    """Return what all algorithms of the mechanism's DP level leak."""
    level = refused(mechanism).level_upper(model.length)
    return replace(exchange_leakage(level, model.chain(), against), lower=0.0, witness=None)


PROVERS: tuple[Prover, ...] = (AnswerProver("stuck sensor", StuckSensor, leakage),)
