"""Where the ledgers of the tests are kept, and how to reach behind their back."""

import sqlite3
from dataclasses import dataclass
from typing import Any

import undertow as ut
from undertow.ledger.book import Ledger

MODEL = ut.Groups(2)
LIMIT = 1.0
BUDGET = ut.dp_budget(MODEL, LIMIT)
HALF, QUARTER, EIGHTH = BUDGET / 2, BUDGET / 4, BUDGET / 8  # exact


@dataclass(frozen=True)
class Place:
    """A place for a ledger: a file that does not exist yet, or an empty database."""

    backend: str
    where: str

    def open(self, dataset: str = "w25", **options: Any) -> Ledger:
        """Return a ledger with a budget of `BUDGET`."""
        terms = {"model": MODEL, "limit": LIMIT}
        return Ledger(self.where, dataset, **{**terms, **options})

    def connect(self) -> Any:
        """Return a plain connection of the driver, for faults and forgeries."""
        if self.backend == "sqlite":
            return sqlite3.connect(self.where, timeout=0)
        import psycopg

        return psycopg.connect(self.where)

    def forge(self, *statements: str) -> list[Any]:
        """Run statements as someone with write access would; return the rows of the last."""
        connection = self.connect()
        try:
            for statement in statements:
                cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
        finally:
            connection.close()
        return rows
