"""Thousands of histories of releases against the joint leakage that enumeration finds.

Every history is determined by its number, up to the noise of a ledger's releases: a failure is
repeated with `single(number, LARGE)` or `account(number, folder, LARGE)` of `joint_runs`.
"""

from collections import Counter
from pathlib import Path

from tests.contracts.joint_runs import LARGE, Tally, account, run, single

FIRST = 1_000_000  # other numbers than those of the ordinary tests


def run_releases(seconds: float, most: int) -> Tally:
    """Single releases without a ledger."""
    return run(lambda number: single(number, LARGE), range(FIRST, FIRST + most), seconds)


def run_accounts(seconds: float, most: int, folder: Path) -> Tally:
    """Sequences of releases, each from a ledger of its own, which is then removed."""

    def case(number):
        outcome = account(number, folder, LARGE)
        for path in folder.glob(f"{number}-*"):
            path.unlink()
        return outcome

    return run(case, range(FIRST, FIRST + most), seconds)


def table(tally: Tally) -> list[str]:
    """What was asked, what was granted, and by how much the guarantees were missed."""
    grants, asked = Counter[str](), Counter[str]()
    for (view, _), times in tally.asked.items():
        asked[view] += times
    for (view, _), times in tally.grants.items():
        grants[view] += times
    kinds = [f"| granted, {view} | {grants[view]} of {asked[view]} |" for view in sorted(asked)]
    rows = [
        f"| histories | {tally.histories} |",
        *kinds,
        f"| leak more than nine tenths of the promise | {tally.tight} |",
        f"| worst excess over a promise | {tally.excess:.3g} |",
        f"| failures | {len(tally.failures)} |",
    ]
    listed = [f"- {failure}" for failure in tally.failures[:20]]
    return ["| what | found |", "|---|---|", *rows, "", *listed, *([""] if listed else [])]
