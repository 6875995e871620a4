"""The command and the Python that do what a page does."""

import shlex
from dataclasses import dataclass
from typing import Any, TypeGuard

from undertow import Groups, MarkovChain, MultivariateGaussian, Pedigree, Plan
from undertow.models import Contagion
from undertow.models.sets import AnyModel
from undertow_studio.questions import Question
from undertow_studio.studio import Settings, Work
from undertow_studio.tables import file_argument, option_text

__all__ = ["code_for_model", "code_for_plan", "code_for_release", "code_for_witness"]

_MOST = 6
"""States of a chain that is written out; larger ones are read from a file."""


@dataclass(frozen=True, slots=True)
class Code:
    """Some lines, and what they are."""

    title: str
    text: str


def code_for_model(work: Work) -> list[Code]:
    """Return how the model of a piece of work comes about."""
    command, python = model_commands(work, work.model), model_python(work, work.model)
    parts = [Code("Command line", "\n".join(command))] if command else []
    return [*parts, Code("Python", "\n".join(python))]


def code_for_plan(work: Work, model: AnyModel, question: Question) -> list[Code]:
    """Return how the plan of a piece of work comes about."""
    before = model_commands(work, work.model)
    model_options = _given(work, work.model, question)
    line = f"undertow plan {model_options} {question.options()} --output plan.json"
    length = question.length if question.kind == "redacted" else None
    python = [*model_python(work, work.model, length), question.python()]
    python.append('Path("plan.json").write_text(plan.to_json() + "\\n")')
    python.insert(0, "from pathlib import Path")
    return [Code("Command line", "\n".join([*before, line])), Code("Python", "\n".join(python))]


def code_for_release(work: Work, plan: "Plan[Any]", settings: Settings) -> list[Code]:
    """Return the whole path of a piece of work: model, plan, release."""
    if work.plan is None and work.question is not None:
        parts = code_for_plan(work, plan.model, work.question)
    else:
        parts = [Code("Command line", "# save the plan as plan.json"), Code("Python", _OPEN)]
    verb = "release" if plan.task == "answer" else "sanitize"
    name = "DATA" if work.source is None else file_argument(work.source.name)
    reading = "--value COLUMN" if work.reading is None else work.reading.options("release")
    account = secret = where = ""
    if settings.ledger is not None and settings.dataset is not None and not work.simulated:
        from undertow.ledger.store import PASSWORD_WORDS, without_password

        where = without_password(settings.ledger)
        account = f" {option_text('ledger', where)} {option_text('dataset', settings.dataset)}"
        if where != settings.ledger:
            secret = f"# {PASSWORD_WORDS}\n"
    file = " --report report.html" if verb == "release" else " --output released.csv"
    line = f"undertow {verb} {name} --plan plan.json {reading}{account}{file}"
    opened = 'data = ut.Data("DATA", value="COLUMN")'
    if work.reading is not None and work.source is not None:
        opened = work.reading.python(work.source.name)
    ledger = ""
    python = [parts[1].text]
    if opened not in parts[1].text:
        python.append(opened)
    if account:
        python.append(f"{secret}ledger = ut.Ledger({where!r}, dataset={settings.dataset!r})")
        ledger = ", ledger=ledger"
    python.append(f"out = ut.{verb}(plan, data{ledger})")
    if verb == "release":
        python.append('out.report().save("report.html")')
    return [
        Code("Command line", f"{parts[0].text}\n{secret}{line}"), Code("Python", "\n".join(python)),
    ]  # fmt: skip


def code_for_witness(work: Work, plan: "Plan[Any]") -> list[Code]:
    """Return how the worst case of a plan is seen, and tried out."""
    lines = [_OPEN, "print(plan.leakage.witness)", "print(ut.audit(plan))"]
    command = "# save the plan as plan.json (step 6)\nundertow audit plan.json"
    return [Code("Command line", command), Code("Python", "\n".join(lines))]


_OPEN = """from pathlib import Path
import undertow as ut

plan = ut.Plan.from_json(Path("plan.json").read_text())"""


def model_commands(work: Work, model: AnyModel | None) -> list[str]:
    """Return the commands that make the model's file, none where no file is needed."""
    if model is None and work.source is not None and work.reading is not None:
        name = file_argument(work.source.name)
        public = " --public" if work.simulated else ""
        return [f"undertow fit {name} {work.reading.options('fit')}{public} --output model.json"]
    if model is None or _typed(model):
        return []
    return ["# save the model as model.json first (step 2)"]


def model_python(work: Work, model: AnyModel | None, length: int | None = None) -> list[str]:
    """Return the Python that makes the model, a chain with the length that a question needs."""
    lines = ["import undertow as ut", ""]
    if model is None and work.source is not None and work.reading is not None:
        states = f", states={work.reading.states!r}" if work.reading.states else ""
        public = ", public=True" if work.simulated else ""
        public += f", length={length}" if length else ""
        return [
            *lines, work.reading.python(work.source.name),
            f"model = ut.MarkovChain.fit(data{states}{public})",
        ]  # fmt: skip
    text = None if model is None else _built(model, length)
    if text is not None:
        return [*lines, f"model = {text}"]
    return [
        "import json", *lines, "from undertow.models.registry import model_from_dict", "",
        'model = model_from_dict(json.loads(Path("model.json").read_text()))',
    ]  # fmt: skip


def _given(work: Work, model: AnyModel | None, question: Question) -> str:
    """Return the options that give the model to a command."""
    length = question.length if question.kind == "redacted" else None
    if model is not None and _typed(model):
        rows = ";".join(",".join(repr(float(p)) for p in row) for row in model.transition)
        options = f"--transition {shlex.quote(rows)}"
        if model.states != tuple(range(len(model.states))):
            options += f" --states {shlex.quote(','.join(map(str, model.states)))}"
        length = model.length or length
        return options + (f" --length {length}" if length else "")
    open_ended = model is None or (model.family == "chain" and model.length is None)
    return "--model model.json" + (f" --length {length}" if length and open_ended else "")


def _bare(model: AnyModel) -> bool:
    """Return whether nothing is known of a model but its law."""
    return model.origin == "hand" and not model.records and not model.checks


def _typed(model: AnyModel) -> TypeGuard[MarkovChain]:
    """Return whether a chain can be typed: few states, plain names, a stationary start."""
    return (
        isinstance(model, MarkovChain)
        and _bare(model)
        and model.transition.ndim == 2
        and len(model.states) <= _MOST
        and model.start == "stationary"
        and all("," not in str(state) for state in model.states)
    )


def _built(model: AnyModel, length: int | None = None) -> str | None:
    """Return the Python that builds a model, None where a file is plainer, or says more."""
    if not _bare(model):
        return None
    match model:
        case MarkovChain() if _typed(model):
            most = model.length or length
            long = f", length={most}" if most else ""
            rows = [[float(p) for p in row] for row in model.transition]
            return f"ut.MarkovChain({rows}, states={model.states!r}{long})"
        case Pedigree() if not model.latent:
            described: dict[str, Any] = model.law_dict()
            parents = {child: (one, two) for child, one, two in described["parents"]}
            often = described["allele_frequency"]
            text = tuple(often) if isinstance(often, list) else often
            return f"ut.Pedigree(parents={parents!r}, allele_frequency={text!r})"
        case Groups():
            return f"ut.Groups({model.size})"
        case Contagion():
            return None
        case MultivariateGaussian() if model.spread is None:
            return (
                f"ut.MultivariateGaussian({model.mean.tolist()!r}, {model.covariance.tolist()!r})"
            )
    return None
