"""``python -m tests.warm``: compile once what every worker of the gate would compile for itself.

Bytecode of the packages that take longest to import, and the loops that numba compiles.
"""

import importlib
import sys

import undertow as ut

HEAVY = ("torch", "scipy.stats", "pandas", "matplotlib.pyplot", "opendp.prelude", "hypothesis",
         "sqlalchemy", "fastapi", "polars", "duckdb")  # fmt: skip


def main() -> None:
    """Import, and follow hidden states once forth and back, with few states and with more."""
    for name in HEAVY:
        importlib.import_module(name)
    for size in (2, 3):
        chain = ut.MarkovChain([[0.5 if x == y else 0.5 / (size - 1) for y in range(size)]
                                for x in range(size)])  # fmt: skip
        plan = ut.calibrate(ut.Series(), chain, limit=4.0, method="exchange")
        truth = chain.simulate(60, seed=1)
        shown = ut.sanitize(plan, truth, insecure_seed=1)
        ut.attack(shown, plan, truth=truth)
    ut.HiddenChain.fit(chain.simulate(200, seed=1), starts=1, public=True)
    sys.stdout.write("warm\n")


if __name__ == "__main__":
    main()
