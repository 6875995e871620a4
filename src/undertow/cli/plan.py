"""``undertow plan``: calibrate the noise of a query to a leakage limit, as a plan file."""

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from undertow.cli.files import check_written, write_text
from undertow.cli.options import (
    AcceptOption,
    AttackerOptions,
    EffortOption,
    ForceOption,
    JsonOption,
    LimitOption,
    LocalOptions,
    ModelOptions,
    NoiseOptions,
    QueryOptions,
    SecretOptions,
    command,
    misuse,
    option,
    read_accept,
    read_effort,
    read_missing,
    read_records,
)
from undertow.cli.output import above, interval, show, show_checks, show_table, waiting
from undertow.cli.verify import check_place, write_certificate
from undertow.methods import BEST, is_certified, method_names

if TYPE_CHECKING:
    from undertow.mechanisms import RandomizedResponse, Redaction
    from undertow.plan import Plan

__all__ = ["measure_rows", "plan", "uncovered"]


Method = StrEnum("Method", {name: name for name in method_names()})  # type: ignore[misc]
_BEST = Method(BEST)
"""The methods of calibration, from the registry."""


@command
def plan(
    limit: LimitOption,
    model: ModelOptions,
    query: QueryOptions,
    local: LocalOptions,
    attacker: AttackerOptions,
    noise: NoiseOptions,
    secret: SecretOptions,
    valid_for: Literal["series", "windows", "any"] | None = option(
        "SHAPE",
        "Data that the proof covers: whole series and no other release of them, windows (one of "
        "each series), or any windows and groups.",
        group="Guarantee",
    ),
    missing: str | None = option(
        "any|none|STATE",
        "Missing records: any pattern of them, none, or records in a state (default: that of the "
        "model, else any).",
        group="Guarantee",
    ),
    accept: AcceptOption = None,
    method: Method = option(
        "NAME", "Method; 'best' has the least certified error ('undertow compare' lists all).",
        _BEST, group="Guarantee",
    ),
    effort: EffortOption = None,
    output: Path | None = option("FILE", "Path of the plan.", group="Output"),
    certificate: Path | None = option(
        "FILE", "Path of a certificate that others can check.", group="Output"
    ),
    force: ForceOption = False,
    key: Path | None = option(
        "KEYFILE", "Key that signs the plan ('undertow keys new').", name="--sign", group="Expert"
    ),
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Calibrate the least noise that keeps the leakage of an answer below a limit.

    A query such as --count gets noise. A series is randomised record by record: flipped
    (--series), or erased around the protected records (--redacted).

    \b
    Examples:
      undertow plan --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --limit 1 --output plan.json
      undertow plan --model chain.json --histogram --limit 1 --against ignorant
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --mean 0,1 --limit 1 --json
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --count 1 --limit 1 \\
        --method quilt --protect 3,5
      undertow plan --model chain.json --top 1 --limit 1 --valid-for any --output top.json
      undertow plan --model chain.json --histogram --limit 1 --secret 1h --every 5m
      undertow plan --model chain.json --series --limit 2 --output flips.json
      undertow plan --model chain.json --length 300 --redacted --protect 150 --limit 1 \\
        --output erasures.json
      undertow plan --model chain.json --histogram --limit 1 --delta 1e-6 --releases 52 \\
        --method closed --output weekly.json
    """
    if query.total + local.present != 1:
        raise misuse(
            "give one of --count, --histogram, --top, --transitions, --sum, --mean, --series and "
            "--redacted"
        )
    arguments = noise.arguments() | ({} if valid_for is None else {"valid_for": valid_for})
    named = [*arguments, *(["secret"] if secret.secret is not None else [])]
    if local.present and named:
        name = named[0].replace("_", "-")
        raise misuse(f"--{name} goes with a query such as --count, not with a series")
    if output is not None or certificate is None:
        check_written(output, force=force)
    check_place(certificate, force=force)
    against, described = attacker.read(), model.read()
    question: Any
    if local.present:
        question = local.read(model.length)
    else:
        question = query.read(described)
        records = None if local.protect is None else read_records(local.protect, "--protect")
        arguments["secret"] = secret.read(described, records)
    if key is not None:
        from undertow.plan import check_private

        check_private(key)
    arguments |= {"effort": read_effort(effort), "accept": read_accept(accept)}
    faster = "--effort 0.1 is faster"
    if not local.present and method is _BEST:
        faster += ", and so is --method exchange"
    with waiting("searching for the least noise", faster):
        from undertow.planning.calibrate import calibrate

        result = calibrate(
            question, described, limit, against, method=str(method), objective=local.aim(),
            missing=read_missing(missing, described.states), **arguments,
        )  # fmt: skip
    text = result.to_json() + "\n"
    if key is not None:
        from undertow.plan import sign

        text = sign(text, key) + "\n"
    certified = []
    if certificate is not None:  # refused before anything is written
        certified = [("certificate", write_certificate(certificate, result, force=force))]
    if output is not None:
        write_text(output, text, force=force)
    if as_json:
        typer.echo(text, nl=False)
    else:
        written = [] if output is None else [("written to", str(output))]
        show("The plan", [*plan_rows(result), *certified, *written])
        show_checks(result.checks)
        show_probabilities(result)


def plan_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return a plan as labelled rows."""
    from undertow.reporting.scope import proved_for

    local = plan.task != "answer"
    basis = "" if is_certified(plan) else " (as published; the leakage below is certified)"
    return [
        ("question", plan.query.words()),
        ("guarantee", plan.guarantee()),
        ("model", plan.model.describe()),
        ("method", plan.method + basis),
        *(local_rows(plan) if local else _noise_rows(plan)),
        *([] if local else [("proved for", proved_for(plan.leakage, plan.length))]),
        *uncovered(plan),
        ("assumes", "; ".join(plan.leakage.assumptions) or "nothing"),
    ]


def _noise_rows(plan: "Plan") -> list[tuple[str, str]]:
    from undertow.plan import readings_moved

    error = f"within {plan.accuracy(0.05):.6g} with probability 95%"
    if plan.query.selects:
        error = f"no selected state falls short by more with probability 95%: {plan.accuracy():.6g}"
    return [
        ("noise", plan.noise.describe()),
        *level_rows(plan),
        ("leakage", f"{interval(plan.leakage)}; {plan.limit:g} is allowed"),
        *([("releases", _RELEASES.format(plan.releases))] if plan.releases > 1 else []),
        ("expected error", f"{plan.expected_error:.6g}"),
        ("error bar", error),
        *(("readings", moved) for moved in [readings_moved(plan, plan.length)] if moved),
    ]


_RELEASES = "{} on the same records keep the limit together, each with this noise"


def level_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return the cost of one release: its DP level, or mu and rho of Gaussian noise."""
    noise: Any = plan.noise
    if noise.shape == "discrete-gaussian":
        return [("zCDP", f"rho {above(noise.rho_upper(plan.length))}")]
    if noise.shape == "gaussian":
        mu, rho = noise.mu_upper(plan.length), noise.rho_upper(plan.length)
        return [("GDP", f"mu {above(mu)}, which is rho {above(rho)} of zCDP")]
    return [("DP level", above(plan.dp_epsilon))]


_DIGITS = 6
_MOST_STATES, _MOST_RECORDS, _MOST_RUNS = 12, 20, 6
"""The part of a large plan that is printed; the plan file has all of it."""


def local_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return the randomisation of a plan for a series, and its leakage, as labelled rows."""
    return [*_randomised(plan), *measure_rows(plan), *_levels(plan), ("leakage", _leakage(plan))]


def measure_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return the utility of a plan for a series as labelled rows."""
    from undertow.reporting.words import measure

    return [measure(name, value) for name, value in plan.measures]


def uncovered(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return the attackers that the guarantee leaves out, if any, as a labelled row."""
    from undertow.reporting.words import not_covered

    if plan.against == "any" or plan.unit == "person":
        return []
    return [("NOT covered", not_covered(plan)[0])]


def show_probabilities(plan: "Plan[Any]") -> None:
    """Print the probabilities of a plan for a series, if they need a table."""
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        _show_erasures(plan, mechanism)
    elif mechanism.kind == "flips" and _brief(plan, mechanism) is None:
        _show_channel(plan, mechanism)


def runs(records: Iterable[int]) -> str:
    """Return records in words, neighbours joined.

    >>> runs([3, 4, 5, 9]), runs([7])
    ('records 3 to 5, 9', 'record 7')
    """
    from undertow.reporting.words import record_ends

    records = list(records)
    if not records:
        return ""
    ranges = [ends for ends, _ in record_ends((record, None) for record in records)]
    more = f" and {len(ranges) - _MOST_RUNS} more runs" if len(ranges) > _MOST_RUNS else ""
    return f"record{'s' * (len(records) > 1)} " + ", ".join(ranges[:_MOST_RUNS]) + more


def _randomised(plan: "Plan[Any]") -> list[tuple[str, str]]:
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        return _erased(mechanism)
    if mechanism.kind != "flips":
        return [
            ("flips", f"each record {_likely(mechanism.flip_rate)}, in runs"),
            ("flips begin", f"{_likely(mechanism.rho0)} after a record that is kept"),
            ("flips end", f"{_likely(mechanism.rho1)} after a record that is flipped"),
        ]
    return [("flips", _brief(plan, mechanism) or "see the table")]


def _brief(plan: "Plan[Any]", channel: "RandomizedResponse") -> str | None:
    """Return a channel in one line, None if it needs a table."""
    matrix = channel.matrix.tolist()
    states, named = [repr(state) for state in plan.states], channel.outputs is None
    rows = list(map(tuple, matrix))
    if len(set(rows)) == 1:
        return "the output does not depend on the record: nothing is shown"
    if len(rows) != len(rows[0]) or not named:
        return None
    if len(rows) == 2:
        first, second = rows[0][1], rows[1][0]
        if first == second:
            return f"either state {_likely(first)}"
        return f"{states[0]} {_likely(first)}, {states[1]} with {_probability(second)}"
    kept = {row[place] for place, row in enumerate(rows)}
    moved = {p for place, row in enumerate(rows) for other, p in enumerate(row) if other != place}
    if max(kept) - min(kept) <= _SAME and max(moved) - min(moved) <= _SAME:
        return f"every state {_likely(1 - min(kept))}, to each other state alike"
    return None


_SAME = 1e-12
"""Probabilities that differ by less are printed as one; the plan file has the exact ones."""


def _show_channel(plan: "Plan[Any]", channel: "RandomizedResponse") -> None:
    names = [str(name) for name in plan.mechanism.names(plan.states)]
    header = ["", *(f"shown as {name}" for name in names[:_MOST_STATES])]
    rows = [
        [str(state), *map(_probability, row[:_MOST_STATES])]
        for state, row in zip(plan.states, channel.matrix.tolist(), strict=True)
    ][:_MOST_STATES]
    cut = max(len(names), len(plan.states)) > _MOST_STATES
    more = f" (the first {_MOST_STATES} of each; the plan file has all)" if cut else ""
    show_table(f"Probability of each output, given the state{more}", header, rows)


def _erased(mechanism: "Redaction") -> list[tuple[str, str]]:
    always = _places(mechanism, lambda row: min(row) == 1)
    at_times = _at_times(mechanism)
    shown = mechanism.length - len(always) - len(at_times)
    return [
        ("always erased", runs(always)),
        ("erased at times", runs(at_times) or "none"),
        ("always shown", f"{shown} of {mechanism.length} records"),
    ]


def _places(mechanism: "Redaction", holds: Callable[[list[float]], bool]) -> list[int]:
    rows = enumerate(mechanism.probabilities.tolist())
    return [record for record, row in rows if holds(row)]


def _at_times(mechanism: "Redaction") -> list[int]:
    return _places(mechanism, lambda row: max(row) > 0 and min(row) < 1)


def _show_erasures(plan: "Plan[Any]", mechanism: "Redaction") -> None:
    """Print the erasure probabilities of records erased at times, nearest to a secret first."""
    table, touched = mechanism.probabilities, _at_times(mechanism)
    if not touched:
        return
    nearest = sorted(touched, key=lambda r: min(abs(r - secret) for secret in mechanism.protect))
    shown = sorted(nearest[:_MOST_RECORDS])
    more = f" (the nearest {len(shown)} of {len(touched)})" if len(shown) < len(touched) else ""
    states = plan.states[:_MOST_STATES]
    rows = [
        [f"{record}", *(_probability(table[record][place]) for place in range(len(states)))]
        for record in shown
    ]
    show_table(
        f"Probability of an erasure, given the state{more}",
        ["record", *(f"if {state}" for state in states)],
        rows,
    )


def _levels(plan: "Plan[Any]") -> list[tuple[str, str]]:
    if plan.task == "redact":
        return []
    if plan.mechanism.kind != "flips":
        return [("DP level", "none is known: the flips depend on each other")]
    level = plan.dp_epsilon
    return [("DP level", "none: an output excludes a state" if math.isinf(level) else above(level))]


def _leakage(plan: "Plan[Any]") -> str:
    ends, allowed = interval(plan.leakage), f"{plan.limit:g}"
    if plan.leakage.proves(plan.limit):
        return f"{ends}; {allowed} is allowed"
    if plan.leakage.lower > plan.limit:
        return f"{ends}; MORE than the {allowed} that is allowed"
    return f"{ends}; NOT proved to be the {allowed} that is allowed"


def _probability(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def _likely(value: float) -> str:
    return f"with probability {_probability(value)}"
