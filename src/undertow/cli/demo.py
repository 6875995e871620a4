"""``undertow demo``: a worked example from a model to a release, on simulated activity."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.files import write_bytes
from undertow.cli.options import JsonOption, command, option
from undertow.cli.output import above, answer, below, odds, say, strict_json, ticking
from undertow.errors import InvalidInput, NotSupported
from undertow.files import reason
from undertow.rounding import visible

if TYPE_CHECKING:
    from undertow.certificate import Leakage
    from undertow.models.chains import MarkovChain
    from undertow.plan import Plan
    from undertow.releasing.request import Release

__all__ = ["demo"]


TRANSITION = ((0.882, 0.118), (0.305, 0.695))
"""Activity in steps of five minutes, row = from: section 8.4.3 of [lange2024]."""

RECORDS = 14 * 24 * 12
SEED = 2024
_LIMIT = 1.0
_POINTS = 60
_HIGHEST = 4.0
_REPORT = """\
A fortnight of activity in steps of five minutes: {records} SIMULATED records (seed {seed})

1. What does a differentially private algorithm reveal?
   An algorithm of DP level 1 can leak {leak} about one record: an attacker who knows any
   other records moves the odds between its two values by a factor {factor}, not {plain}.
   Published bounds: {lange} (Lange 2024), {zhao} (Zhao et al. 2017), {records} (level times
   records).

2. What may be spent instead?
   To leak at most {limit}, spend a DP level of {budget}.

3. The plan for the number of active records
   Discrete Laplace noise of scale {scale}; expected error {error}; leakage at most {proved}.
   For any dependence among {records} records the scale would be {records}; the two other
   published bounds cannot guarantee {limit} at all.
   It holds if the records follow the chain, which is written by hand and was not checked
   against records, and if which values are missing depends on no record.

4. The release
   Released: {value}, within {bar} of the truth with probability 95%
   The noise is {randomness}: drawn from the operating system, and no seed repeats it.
   True count: {truth} (known and shown only because these records are simulated)
"""


@command
def demo(
    output: Path = option("DIR", "Folder of the files.", Path("demo-output")),
    seed: int = option("N", "Seed of the simulated series; the noise has none.", SEED, min=0),
    as_json: JsonOption = False,
) -> None:
    """Run a worked example from a model to a release, on a simulated fortnight of activity.

    Writes a figure, the plan, the release and a report into a folder, over the files of an earlier
    run.

    \b
    Example:
      undertow demo --output demo-output
    """
    _make_directory(output)
    with ticking("demonstrating", _POINTS + 5) as tick:
        story = _live(seed, tick)
        drawn, note = _figures(story, tick)
        written = story.text()
        files = {
            **drawn,
            "plan.json": (story.plan.to_json() + "\n").encode(),
            "release.json": (strict_json(story.published()) + "\n").encode(),
            "report.txt": written.encode(),
        }
        for name, content in files.items():
            write_bytes(output / name, content, force=True)
    paths = [str(output / name) for name in files]
    answer(
        story.fields() | {"files": paths},
        lambda: typer.echo("\n".join([written, visible(f"Files in {output}: {', '.join(files)}")])),
        as_json=as_json,
    )
    if note:
        say(note)


@dataclass(frozen=True, slots=True)
class _Story:
    """The results of the example."""

    seed: int
    chain: "MarkovChain"
    leak: "Leakage"
    budget: float
    plan: "Plan"
    release: "Release"
    truth: int

    def published(self) -> dict[str, Any]:
        """Return what a curator publishes: the answer and the guarantee, never the truth."""
        return {
            "question": "number of active records",
            "value": self.release.value,
            "error_bar": {"within": self.release.error_bar(0.05), "probability": 0.95},
            "promise": self.plan.guarantee(*self.release.conditions),
            "randomness": self.release.randomness,
            "plan_checksum": json.loads(self.plan.to_json())["checksum"],
            "simulated_records": True,
        }

    def fields(self) -> dict[str, Any]:
        """Return the numbers of the demonstration."""
        return {
            "records": RECORDS,
            "seed": self.seed,
            "leakage_of_dp_level_1": self.leak.upper,
            "dp_level_for_leakage_1": self.budget,
            "scale": self.plan.mechanism.scale,
            "released": self.release.value,
            "error_bar_95": self.release.error_bar(0.05),
            "simulated_true_count": self.truth,
        }

    def text(self) -> str:
        """Return the demonstration in words."""
        from undertow.bounds.published import lange_constant, zhao_constant

        return _REPORT.format(
            records=RECORDS,
            seed=self.seed,
            limit=f"{_LIMIT:g}",
            leak=above(self.leak.upper, 5),
            factor=odds(self.leak.upper),
            plain=odds(1.0),
            lange=f"{1.0 + lange_constant(self.chain):.2f}",
            zhao=f"{1.0 + zhao_constant(self.chain):.2f}",
            budget=below(self.budget, 4),
            scale=above(self.plan.mechanism.scale, 6),
            error=f"{self.plan.expected_error:.3f}",
            proved=above(self.plan.leakage.upper, 10),
            value=self.release.value,
            bar=f"{self.release.error_bar(0.05):g}",
            randomness=self.release.randomness,
            truth=self.truth,
        )


def _live(seed: int, tick: Callable[[], object]) -> _Story:
    from undertow.bounds.engine import leakage
    from undertow.mechanisms import PureDP
    from undertow.models.chains import MarkovChain
    from undertow.planning.budget import dp_budget
    from undertow.planning.calibrate import calibrate
    from undertow.queries import Count
    from undertow.releasing.request import release

    states = ("inactive", "active")
    chain = MarkovChain(TRANSITION, states)
    leak = leakage(PureDP(1.0), chain)
    budget = dp_budget(chain, _LIMIT)
    tick()
    plan = calibrate(Count("active"), MarkovChain(TRANSITION, states, length=RECORDS), _LIMIT)
    tick()
    records = chain.simulate(RECORDS, seed=seed)
    out = release(plan, records)
    tick()
    return _Story(seed, chain, leak, budget, plan, out, records.count("active"))


def _figures(story: _Story, tick: Callable[[], object]) -> tuple[dict[str, bytes], str]:
    """Return the figure's files, or none and the reason."""
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.curves import Mark, draw_leakage, leakage_curves

    levels = [0.01, *(_HIGHEST * step / _POINTS for step in range(1, _POINTS + 1))]
    curves = leakage_curves(story.chain, levels, RECORDS, tick)
    leaks, spend = above(story.leak.upper, 5), below(story.budget, 4)
    marks = [
        Mark(1.0, story.leak.upper, f"a DP level of 1 leaks {leaks}"),
        Mark(story.budget, _LIMIT, f"to leak {_LIMIT:g}, spend {spend}", lift=76),
    ]
    try:
        figure = draw_leakage(curves, marks, "What an ε-DP algorithm reveals about activity")
    except NotSupported as error:
        return {}, f"no figure was drawn: {error}"
    files = {"leakage.png": figure_bytes(figure, "png"), "leakage.svg": figure_bytes(figure, "svg")}
    tick()
    return files, ""


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot make the directory {path}: {reason(error)}; choose another with --output"
        ) from error
