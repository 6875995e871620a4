"""The long runs of the ledger, part of `make soak`; short ones are in test_crashes.py."""

import pytest

from tests.ledger import soak_work as work

KILLS, RESERVATIONS = 1000, 10_000


def told(seen: work.Seen, backend: str) -> str:
    return (
        f"| {backend} | {seen.runs:,} | {seen.killed:,} | {seen.confirmed:,} | {seen.refused:,} | "
        f"{seen.seconds:.0f} s | {len(seen.faults)} |"
    )


@pytest.mark.soak
def test_a_thousand_releases_killed(place, tmp_path, lines):
    """What a release shows is recorded, once, within the budget; a repetition completes it."""
    seen = work.kill_points(place.where, tmp_path, KILLS, seed=7, every=10)
    lines += [f"## Releases killed at random moments: {place.backend}", ""]
    lines += ["| ledger | releases | killed | completed when repeated | refused before | time |"]
    lines[-1] += " faults |"
    lines += ["|---|---|---|---|---|---|---|", told(seen, place.backend), ""]
    assert not seen.faults
    assert seen.killed > KILLS / 3


@pytest.mark.soak
def test_ten_thousand_reservations_race(place, lines):
    """Eight processes ask for eight times what fits; exactly what fits is granted."""
    seen = work.race(place.where, RESERVATIONS)
    lines += [f"## Reservations of eight processes at once: {place.backend}", ""]
    lines += ["| ledger | asked | killed | granted | refused | time | faults |"]
    lines += ["|---|---|---|---|---|---|---|", told(seen, place.backend), ""]
    assert not seen.faults
    assert seen.confirmed == work.SLOTS * (RESERVATIONS // (8 * work.SLOTS))
