"""Stub."""
from undertow.certificate import Leakage
from undertow.plan import Plan
def check_proof(plan: Plan) -> Leakage:
    return plan.leakage
