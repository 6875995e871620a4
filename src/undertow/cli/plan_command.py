"""``undertow plan``: the least noise for a promise, as a plan that can be stored."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undertow.cli.options import (
    AgainstOption,
    CountOption,
    HistogramOption,
    JsonOption,
    KnownOption,
    LengthOption,
    ModelOption,
    ModelText,
    StartOption,
    StatesOption,
    TargetOption,
    TransitionOption,
    misuse,
    read_against,
    read_count,
    read_range,
)
from undertow.cli.output import above, interval, odds, query_words, refusals, show, waiting
from undertow.errors import NotSupported

if TYPE_CHECKING:
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan
    from undertow.queries import AnyQuery

__all__ = ["plan", "plan_rows"]


class Method(StrEnum):
    """How the noise is calibrated."""

    best = "best"
    exact = "exact"
    exchange = "exchange"
    group = "group"


def plan(
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", metavar="E", help="The leakage that is allowed at most."),
    ],
    model: ModelOption = None,
    transition: TransitionOption = None,
    states: StatesOption = None,
    start: StartOption = None,
    length: LengthOption = None,
    count: CountOption = None,
    histogram: HistogramOption = False,
    sum_: Annotated[
        str | None,
        typer.Option("--sum", metavar="LOW,HIGH", help="The sum of records clipped to a range."),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option("--mean", metavar="LOW,HIGH", help="Their mean; needs --length."),
    ] = None,
    against: AgainstOption = None,
    target: TargetOption = None,
    known: KnownOption = None,
    method: Annotated[
        Method, typer.Option("--method", help="How to calibrate; 'best' takes the least error.")
    ] = Method.best,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the plan there.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The least noise that keeps what is revealed below a limit.

    \b
    Examples:
      undertow plan --transition '0.882,0.118;0.305,0.695' --states inactive,active \\
        --count active --epsilon 1 --output plan.json
      undertow plan --model chain.json --histogram --epsilon 1 --against ignorant
      undertow plan --transition '0.9,0.1;0.2,0.8' --length 100 --mean 0,1 --epsilon 1 --json
    """
    with refusals(as_json):
        if (count is not None) + histogram + (sum_ is not None) + (mean is not None) != 1:
            raise misuse("ask for one of --count, --histogram, --sum and --mean")
        if force and output is None:
            raise misuse("--force goes with --output")
        who = read_against(against, target, known)
        described = ModelText(model, transition, states, start, length).read()
        query = _query(described, count, sum_, mean)
        if output is not None:
            from undertow.cli.files import check_output

            check_output(output, force=force)
        with waiting("searching for the least noise"):
            from undertow.planning.search import calibrate

            found = calibrate(query, described, epsilon, who, method.value)
        text = found.to_json() + "\n"
        if output is not None:
            from undertow.cli.files import write_text

            write_text(output, text, force=force)
        if as_json:
            typer.echo(text, nl=False)
        else:
            written = [] if output is None else [("written to", str(output))]
            show("The plan", [*plan_rows(found), *written])


def plan_rows(plan: "Plan") -> list[tuple[str, str]]:
    """Return a plan as labelled rows."""
    from undertow.adversaries import words
    from undertow.mechanisms import DiscreteLaplace

    noise = "discrete Laplace" if isinstance(plan.mechanism, DiscreteLaplace) else "Laplace"
    promise = (
        f"{words(plan.against)} can raise the odds between two values of a record by at most "
        f"a factor {odds(plan.leakage.upper)}"
    )
    return [
        ("question", query_words(plan.query)),
        ("model", plan.model.describe()),
        ("method", plan.method),
        ("noise", f"{noise}, scale {above(plan.mechanism.scale)}"),
        ("DP level", above(plan.dp_epsilon)),
        ("leakage", f"{interval(plan.leakage)}; {plan.epsilon:g} is allowed"),
        ("expected error", f"{plan.expected_error:.6g}"),
        ("error bar", f"within {plan.accuracy(0.05):.6g} with probability 95%"),
        ("promise", promise),
    ]


def _query(model: "AnyModel", count: str | None, sum_: str | None, mean: str | None) -> "AnyQuery":
    from undertow.plan import model_states
    from undertow.queries import Histogram, Mean, Sum

    if count is not None:
        return read_count(count, model)
    if sum_ is not None:
        return Sum(*read_range(sum_, "--sum"))
    if mean is not None:
        return Mean(*read_range(mean, "--mean"))
    if not model_states(model):
        raise NotSupported("a histogram needs a model that names the states: a Markov chain")
    return Histogram()
