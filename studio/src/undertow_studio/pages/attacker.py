"""Step 5: play the attacker: know and forget records, pick an output, watch the odds move.

Nothing here is read from the table: outputs are picked, and beliefs follow from the model.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow.errors import InvalidInput, NotSupported, UndertowError
from undertow.plan import Plan
from undertow.reporting import words
from undertow_studio.charts.families import family_picture
from undertow_studio.charts.strips import odds_bar, record_strip
from undertow_studio.code import code_for_witness
from undertow_studio.refusals import in_words
from undertow_studio.studio import studio_of, work_of
from undertow_studio.views.relatives import Relatives, relatives_of
from undertow_studio.views.strips import Strip, strip_of
from undertow_studio.views.worst import worst_case

__all__ = ["router"]

router = APIRouter()

Subject = Strip | Relatives


@router.get("/w/{name}/attacker")
async def attacker(request: Request, name: str) -> Response:
    """Show what an attacker believes, and the worst that can happen."""
    studio, work = studio_of(request), work_of(request, name)
    plan, asked = studio.plan(work), request.query_params
    content: dict[str, Any] = {"wrong": "", "subject": None, "guess": None}
    try:
        subject = _subject(plan, asked)
        if subject is not None:
            value = _value(plan, asked.get("value", ""), subject)
            content |= _shown(plan, subject, value)
    except UndertowError as error:
        content["wrong"] = in_words(error)
    return studio.page(
        "attacker", work=work, plan=plan, bound=words.promise(plan), worst=_worst(plan), **content,
        states=list(map(str, plan.states)), code=code_for_witness(work, plan),
    )  # fmt: skip


def _shown(plan: "Plan[Any]", subject: Subject, value: Any) -> dict[str, Any]:
    """Return the records, the belief and the pictures for the template."""
    guess = subject.guess(value)
    people = list(plan.model.order()) if isinstance(subject, Relatives) else []
    cells = subject.cells()
    picture = None
    if isinstance(subject, Relatives) and getattr(plan.model, "kind", "") == "pedigree":
        known = [str(person) for person in subject.known]
        family: Any = plan.model
        picture = family_picture(family, "relatives", known, str(subject.target))
    return {
        "subject": subject, "cells": cells, "strip": record_strip(cells, "What the attacker knows"),
        "guess": guess, "bar": odds_bar(guess), "value": str(value), "picture": picture,
        "people": [(place, str(person)) for place, person in enumerate(people)],
        "known": _written(plan, subject), "target": _place(plan, subject, subject.target),
        "most": len(cells) if isinstance(subject, Relatives) else subject.length,
        "answer": getattr(subject, "answer", None), "local": plan.task != "answer",
        "erased": [cell for cell in cells if cell.why and plan.task == "redact"],
    }  # fmt: skip


def _subject(plan: "Plan[Any]", asked: Mapping[str, str]) -> Subject | None:
    """Return the records under attack as the address says, None where there is no such view."""
    subject: Subject
    if plan.leakage.secret.window > 1:
        return None
    if plan.model.family == "network":
        order = list(plan.model.order() or relatives_of(plan).people)
        target = order[_number(asked.get("target", "0"), len(order))]
        subject = relatives_of(plan, target)
    else:
        try:
            subject = strip_of(plan)
        except NotSupported:
            return None
        target = asked.get("target", "")
        if target:
            wanted = _number(target, subject.first + subject.length)
            subject = replace(subject, known={}, target=wanted)
            for end in subject.fixed:
                subject = subject.knowing(end, plan.states[0])
    for pair in asked.get("known", "").split():
        record, _, state = pair.partition(":")
        who, states = _named(plan, subject, record), plan.states
        if who != subject.target:
            subject = subject.knowing(who, states[_number(state, len(states))])
    if asked.get("toggle"):
        subject = subject.toggled(_named(plan, subject, asked["toggle"]))
    return _seen(plan, subject, asked)


def _seen(plan: "Plan[Any]", subject: Subject, asked: Mapping[str, str]) -> Subject:
    """Return the records with what came out: an answer, or what a series shows."""
    if plan.task == "answer":
        text = asked.get("answer", "")
        try:
            answer = float(text) if text else None
        except ValueError:
            raise InvalidInput("the answer is a number") from None
        if answer is None or not abs(answer) <= 10**6:
            answer = 0.0 if answer is None else 10.0**6
        return replace(subject, answer=answer)
    if isinstance(subject, Relatives):
        return subject
    states, text = plan.states, asked.get("shows", "0")
    shown = states[_number(text, len(states))]
    gone = {record for record, output in subject.outputs.items() if output is None}
    records = range(subject.first, subject.first + subject.length)
    outputs = {record: None if record in gone else shown for record in records}
    return replace(subject, outputs=outputs)


def _worst(plan: "Plan[Any]") -> str:
    """Return the worst case that the certificate names, in words; '' where it names none."""
    witness = plan.leakage.witness
    if witness is None:
        return ""
    people = list(plan.model.order())
    if people and witness.histories is None and not witness.outputs:
        told = " and ".join(f"{people[record]} is {state}" for record, state in witness.known)
        knows = f"knows that {told}" if told else "knows nothing of the others"
        return (
            f"The worst case: someone asks about {people[witness.target]}, {knows}, and waits for "
            f"an answer that tells {witness.value} from {witness.other} best."
        )
    if plan.model.family != "network":
        try:
            worst = worst_case(plan)
        except UndertowError:  # more records than can be weighed
            worst = None
        if worst is not None:
            return worst.words()
    return f"The worst case: {words.attack(witness, plan.length is None)}."


def _value(plan: "Plan[Any]", text: str, subject: Subject) -> Any:
    named = {str(state): state for state in plan.states}
    usual = plan.states[0] if isinstance(subject, Relatives) else plan.states[-1]
    return named.get(text, usual)


def _named(plan: "Plan[Any]", subject: Subject, text: str) -> Any:
    """Return the record of a number; of people, the person at that place."""
    if isinstance(subject, Relatives):
        order = list(plan.model.order() or subject.people)
        return order[_number(text, len(order))]
    return _number(text, subject.first + subject.length)


def _place(plan: "Plan[Any]", subject: Subject, who: Any) -> int:
    if isinstance(subject, Relatives):
        return list(plan.model.order() or subject.people).index(who)
    return int(who)


def _written(plan: "Plan[Any]", subject: Subject) -> str:
    """Return what is known as it stands in an address."""
    return " ".join(
        f"{_place(plan, subject, who)}:{plan.states.index(state)}"
        for who, state in subject.known.items()
    )


def _number(text: str, below: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not int(text) < below:
        raise InvalidInput("there is no such record")
    return int(text)
