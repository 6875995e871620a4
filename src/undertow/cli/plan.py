"""``undertow plan``: the least noise for a guarantee, as a plan that can be stored."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from undertow.cli.files import check_written, write_text
from undertow.cli.local import is_local, local_rows, show_probabilities, uncovered
from undertow.cli.options import (
    AcceptOption,
    AgainstText,
    EffortOption,
    ForceOption,
    JsonOption,
    LimitText,
    LocalText,
    ModelText,
    NoiseText,
    QueryText,
    Unit,
    WindowText,
    command,
    find_state,
    misuse,
    option,
    read_accept,
    read_effort,
    read_missing,
    read_records,
)
from undertow.cli.output import above, interval, show, show_checks, waiting
from undertow.cli.verify import check_place, write_certificate
from undertow.methods import BEST, is_certified, method_names

if TYPE_CHECKING:
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.queries import State
    from undertow.secrets import Secret, Window

__all__ = [
    "level_rows",
    "plan",
    "plan_rows",
]


Method = StrEnum("Method", {name: name for name in method_names()})  # type: ignore[misc]
_BEST = Method(BEST)
"""How the noise is calibrated, from the registry."""


@command
def plan(
    most: LimitText,
    model: ModelText,
    asked: QueryText,
    local: LocalText,
    who: AgainstText,
    wanted: NoiseText,
    whole: WindowText,
    method: Method = option(
        None, "How to calibrate; 'best' takes the least certified error.", _BEST
    ),
    pairs: str | None = option("A:B,C:D", "Only these values must not be told apart."),
    valid_for: Literal["series", "windows", "any"] | None = option(
        None,
        "Proved for whole series, for one window of each, or for any windows and groups; 'series' "
        "also says that nothing else is released of them, so that noise of any shape will do.",
    ),
    missing: str | None = option(
        "any|none|STATE",
        "What a record without a value is: any, the proof covers every pattern of them, if it "
        "depends on no record; none, you vouch that there is none, and one counts as the first "
        "state; or a state, which they are in. By default that of the fit, if it has one, or any, "
        "and none for a series or a named method whose proof needs complete series.",
    ),
    effort: EffortOption = None,
    accept: AcceptOption = None,
    unit: Unit = option(
        None, "What is protected: one record, or all records of a person.", "record"
    ),
    output: Path | None = option("FILE", "Write the plan there."),
    certificate: Path | None = option("FILE", "Write a certificate that others can check."),
    force: ForceOption = False,
    key: Path | None = option("KEYFILE", "Sign the plan ('undertow keys new').", name="--sign"),
    as_json: JsonOption = False,
) -> None:
    """The least noise that keeps what is revealed below a limit.

    A curator's answer gets noise (--count and the like). A series is randomised record by record:
    flipped (--series), or erased around the records to hide (--redacted). With --delta
    the noise may be Gaussian: that pays where many answers are released on the same records
    (--releases).

    \b
    Examples:
      undertow plan --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --limit 1 --output plan.json
      undertow plan --model chain.json --histogram --limit 1 --against ignorant
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --mean 0,1 --limit 1 --json
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --count 1 --limit 1 \\
        --method quilt --protect 3,5
      undertow plan --model chain.json --top 1 --limit 1 --valid-for any --output top.json
      undertow plan --model chain.json --histogram --limit 1 --protect-window 1h --every 5m
      undertow plan --model chain.json --histogram --limit 1 --valid-for any --output weeks.json
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --count 1 --limit 4 \\
        --valid-for series
      undertow plan --model chain.json --series --limit 2 --output flips.json
      undertow plan --model chain.json --length 300 --redacted --protect 150 --limit 1 \\
        --output erasures.json
      undertow plan --model chain.json --histogram --limit 1 --delta 1e-6 --releases 52 \\
        --method closed --output weekly.json
    """
    if asked.asked + local.asked != 1:
        raise misuse(
            "ask for one of --count, --histogram, --top, --transitions, --sum, --mean, --series "
            "and --redacted"
        )
    if local.asked and pairs is not None:
        raise misuse("--pairs goes with a curator's question; a series hides all values")
    if local.asked and wanted.told():
        raise misuse(f"--{next(iter(wanted.told()))} goes with a curator's question, not a series")
    window = whole.read()
    if window is not None and (local.asked or local.protect is not None):
        other = "--protect" if local.protect is not None else "--series"
        raise misuse(f"--protect-window goes with a curator's question, and without {other}")
    shape = _shape(local, valid_for, unit) | wanted.told()
    if output is not None or certificate is None:
        check_written(output, force=force)
    check_place(certificate, force=force)
    limit, against, described = most.read(), who.read(), model.read()
    alike = None if pairs is None else _pairs(pairs, described)
    query: Any
    secret: Secret | None = None
    if local.asked:
        query = local.read(model.length)
    else:
        query = asked.read(described)
        records = None if local.protect is None else read_records(local.protect, "--protect")
        secret = _secret(alike, records, window, unit)
    if key is not None:
        from undertow.plan import check_private

        check_private(key)
    allowed, taken = read_effort(effort), read_accept(accept)
    faster = "--effort 0.1 is faster"
    if not local.asked and method is _BEST:
        faster += ", and so is --method exchange"
    with waiting("searching for the least noise", faster):
        from undertow.planning.calibrate import calibrate

        found = calibrate(
            query, described, limit, against, secret, method=str(method), objective=local.aim(), effort=allowed, accept=taken,
            missing=read_missing(missing, described.states), **shape,
        )  # fmt: skip
    text = found.to_json() + "\n"
    if key is not None:
        from undertow.plan import sign

        text = sign(text, key) + "\n"
    certified = []
    if certificate is not None:  # refused before anything is written
        certified = [("certificate", write_certificate(certificate, found, force=force))]
    if output is not None:
        write_text(output, text, force=force)
    if as_json:
        typer.echo(text, nl=False)
    else:
        written = [] if output is None else [("written to", str(output))]
        show("The plan", [*plan_rows(found), *certified, *written])
        show_checks(found.checks)
        show_probabilities(found)


def plan_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return a plan as labelled rows."""
    from undertow.reporting.scope import proved_for

    local = is_local(plan)
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
        ("noise", plan.noise.said()),
        *level_rows(plan),
        ("leakage", f"{interval(plan.leakage)}; {plan.limit:g} is allowed"),
        *([("releases", _RELEASES.format(plan.releases))] if plan.releases > 1 else []),
        ("expected error", f"{plan.expected_error:.6g}"),
        ("error bar", error),
        *(("readings", moved) for moved in [readings_moved(plan, plan.length)] if moved),
    ]


_RELEASES = "{} on the same records keep the limit together, each with this noise"


def level_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return what one release costs: its DP level, or the mu and rho of Gaussian noise."""
    noise: Any = plan.noise
    if noise.shape == "discrete-gaussian":
        return [("zCDP", f"rho {above(noise.rho_upper(plan.length))}")]
    if noise.shape == "gaussian":
        mu, rho = noise.mu_upper(plan.length), noise.rho_upper(plan.length)
        return [("GDP", f"mu {above(mu)}, which is rho {above(rho)} of zCDP")]
    return [("DP level", above(plan.dp_epsilon))]


def _secret(
    pairs: "list[tuple[State, State]] | None", records: list[int] | None,
    window: "Window | None", unit: str,
) -> "Secret | None":  # fmt: skip
    """Return the secret that the options name, None for any one record."""
    from undertow.secrets import Pairs, Person, Records

    if unit == "person":
        if pairs is not None or records is not None or window is not None:
            raise misuse(
                "--unit person hides all records of a person: leave --pairs, --protect and "
                "--protect-window out"
            )
        return Person()
    if pairs is not None:
        if window is not None:
            raise misuse("--protect-window hides all values: leave --pairs out")
        return Pairs(pairs, records)
    return window if records is None else Records(records)


def _shape(local: LocalText, valid_for: str | None, unit: str) -> dict[str, Any]:
    """Return the shapes of data to cover as an argument of calibrate; refuse them for a series."""
    told = (("valid_for", valid_for, None), ("unit", unit, "record"))
    asked = {name: given for name, given, usual in told if given != usual}
    if local.asked and asked:
        option_name = next(iter(asked)).replace("_", "-")
        raise misuse(f"--{option_name} goes with a curator's question, not with a series")
    asked.pop("unit", None)
    return asked


def _pairs(text: str, model: "AnyModel") -> "list[tuple[State, State]]":
    """Return the pairs of states of 'a:b,c:d'."""

    states = model.states
    found = []
    for part in text.split(","):
        ends = [find_state(end.strip(), states) for end in part.split(":")]
        if len(ends) != 2 or "" in ends:
            raise misuse(f"--pairs needs pairs of states such as a:b,c:d; found {part.strip()!r}")
        found.append((ends[0], ends[1]))
    return found
