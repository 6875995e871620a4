"""Plans for series shown record by record: ``python -m benchmarks.local``. Nothing is asserted.

CPU seconds of one core, expected flips, shares shown. Beside them what was measured before
effort was counted: seconds on a shared machine of two cores, capped by the clock, and the flips
found then; of redactions the share shown then, and what a plain search over all shapes finds.
"""

import time
from typing import Any

import undertow as ut

THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
FOUR = [
    [0.7, 0.15, 0.1, 0.05],
    [0.1, 0.6, 0.2, 0.1],
    [0.15, 0.2, 0.55, 0.1],
    [0.05, 0.1, 0.25, 0.6],
]
FIVE = [
    [0.6, 0.2, 0.1, 0.05, 0.05], [0.1, 0.6, 0.2, 0.05, 0.05], [0.05, 0.1, 0.7, 0.1, 0.05],
    [0.05, 0.05, 0.1, 0.7, 0.1], [0.1, 0.05, 0.05, 0.2, 0.6],
]  # fmt: skip

FLIPS: list[
    tuple[str, Any, int | None, Any, float, str]
] = [  # name, steps, records, adversary, limit, seconds and flips before
    ("3 states", THREE, None, "any", 1.0, "11.2 s, .608171"),
    ("3 states", THREE, None, "any", 3.0, "7.2 s, .478331"),
    ("3 states", THREE, None, "ignorant", 1.0, "26.5 s, .606423"),
    ("3 states", THREE, None, "ignorant", 3.0, "26.5 s, .462748"),
    ("3 states", THREE, 30, "ignorant", 3.0, "3.9 s, .460414"),
    ("4 states", FOUR, None, "any", 1.0, "14.8 s, .679241"),
    ("4 states", FOUR, None, "any", 3.0, "24.6 s, .524155"),
    ("4 states", FOUR, 30, "ignorant", 1.0, ""),
    ("4 states", FOUR, 30, "ignorant", 3.0, ""),
    ("4 states", FOUR, None, "ignorant", 1.0, "more than 120 s"),
    ("4 states", FOUR, None, "ignorant", 3.0, ""),
    ("5 states", FIVE, None, "any", 3.0, ""),
]

REDACTIONS = [  # alpha, beta, records, protected, limit, shown before, shown by a search
    (0.007868417833926921, 0.46197386091592463, 4, 0, 3.989686637087781, ".681880", ".705361"),
    (0.015503941793884025, 0.287541805324824, 6, 0, 3.1040464632309193, ".626274", ".637337"),
    (0.02278336261241641, 0.5108949171641949, 5, 4, 1.8184944712079738, ".545345", ".546940"),
    (0.01, 0.8, 10, 0, 0.25, ".675506", ""),
    (0.01, 0.8, 11, 4, 1.0, ".617722", ""),
    (0.01, 0.8, 100, 50, 1.0, ".956895", ""),
    (0.005, 0.1, 100, 40, 0.5, ".280240", ""),
    (0.9, 0.85, 100, 50, 1.0, ".870000", ""),
]


def main() -> None:
    for name, steps, length, against, limit, before in FLIPS:
        chain = ut.MarkovChain(steps, length=length)
        began = time.process_time()
        plan = ut.calibrate(ut.Series(), chain, limit, against)
        seconds = time.process_time() - began
        flips = dict(plan.measures)["expected flips"]
        words = f"flips, {name}, {length or 'any'} records, {against}, limit {limit:g}"
        print(f"{words:<55} {seconds:6.1f} s  {flips:.6f}   before: {before or '-'}", flush=True)
    for alpha, beta, length, target, limit, before, search in REDACTIONS:
        chain = ut.MarkovChain([[1 - alpha, alpha], [beta, 1 - beta]], length=length)
        began = time.process_time()
        redacted = ut.calibrate(ut.Redacted(target), chain, limit, "any", method="optimal")
        seconds = time.process_time() - began
        words = f"redaction, {alpha:.4g} and {beta:.4g}, {length} records, limit {limit:.3g}"
        print(
            f"{words:<55} {seconds:6.2f} s  {redacted.utility:.6f}   before: {before or '-'}   "
            f"search: {search or '-'}\n    {redacted.leakage.assumptions[-1]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
