"""The parts that the command line puts together; importing them loads the web framework."""

from undertow.serving.accounts import Accounts
from undertow.serving.clients import Clients, changing
from undertow.serving.http import configured, is_loopback, listening, run
from undertow.serving.ledger_api import ServiceSettings, create_service

__all__ = [
    "Accounts",
    "Clients",
    "ServiceSettings",
    "changing",
    "configured",
    "create_service",
    "is_loopback",
    "listening",
    "run",
]
