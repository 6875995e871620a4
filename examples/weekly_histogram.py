"""How active was each cohort, week by week, for a year? Fifty-two releases for the price of one.

Simulates a year of hourly records of twelve people, then releases a histogram per cohort and week.
Every record is in one week, so the whole year leaks what one week does: at most 1.

    python examples/weekly_histogram.py
"""

from datetime import datetime, timedelta

import polars as pl

import undertow as ut

MONDAY, WEEK = datetime(2025, 1, 6), timedelta(weeks=1)
STATES = ("inactive", "active")
CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], STATES, every="1h")


def main(weeks: int = 52) -> None:
    """Release a year of weekly histograms, and print them."""
    simulate(weeks).write_parquet("year.parquet")

    # The ten lines that matter: say how records depend on each other, what is asked, and release.
    # The chain is written by hand, and each guarantee says so: it was not checked against records.
    plan = ut.calibrate(ut.Histogram(), CHAIN, limit=1.0)
    ledger = ut.Ledger("year.db", dataset="w25", model=CHAIN, limit=1.0)
    data = ut.Data(
        "year.parquet", person="id", time="ts", value="steps", state="steps > 0", every="1h",
        by="cohort", groups=["day", "night"],
    )  # fmt: skip
    for week in range(weeks):
        monday = MONDAY + week * WEEK
        out = ut.release(plan, data.window(monday, monday + WEEK), ledger=ledger)
        print(f"{monday:%Y-%m-%d}", out.value)

    out.report().save("last-week.html")
    print(f"all numbers of a week are within {out.error_bar():g} with probability 95%")
    print(
        f"the {len(ledger.entries())} releases leak at most {ledger.leakage().upper:.6f} together"
    )


def simulate(weeks: int) -> pl.DataFrame:
    """Return hourly step counts of twelve people in two cohorts, a week after the other."""
    hours = weeks * 7 * 24
    times = [MONDAY + timedelta(hours=hour) for hour in range(hours)]
    people = []
    for person in range(12):
        steps = [80 if state == "active" else 0 for state in CHAIN.simulate(hours, seed=person)]
        cohort = "day" if person % 2 else "night"
        people.append(pl.DataFrame({"ts": times, "steps": steps}).with_columns(
            id=pl.lit(f"p{person}"), cohort=pl.lit(cohort)
        ))  # fmt: skip
    return pl.concat(people)


if __name__ == "__main__":
    main()
