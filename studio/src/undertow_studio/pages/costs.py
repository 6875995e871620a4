"""Step 4: what it costs: the plan, every method beside it, and how costs move with the limit."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow.errors import InvalidInput, NotSupported
from undertow.plan import Plan
from undertow_studio import calls
from undertow_studio.charts.curves import cost_chart, leakage_chart
from undertow_studio.code import code_for_plan
from undertow_studio.pages.signing import promise
from undertow_studio.questions import AskedQuestion
from undertow_studio.studio import see, studio_of, work_of
from undertow_studio.views.costs import Costs

__all__ = ["router"]

router = APIRouter()


@router.get("/w/{name}/costs")
async def costs(request: Request, name: str) -> Response:
    """Show the plan; its methods and lines follow."""
    studio, work = studio_of(request), work_of(request, name)
    asked, plan = _asked(studio.asked(work), work.plan), studio.plan(work)
    return studio.page(
        "costs", work=work, asked=asked, limit=plan.limit, **promise(plan),
        code=code_for_plan(work, studio.model(work), asked),
    )  # fmt: skip


@router.post("/w/{name}/limit")
async def limit(request: Request, name: str) -> Response:
    """Take another limit."""
    studio, work = studio_of(request), work_of(request, name)
    form = await request.form()
    try:
        wanted = float(str(form.get("limit", "")))
    except ValueError:
        raise InvalidInput("the limit on leakage is a number") from None
    asked = replace(studio.asked(work), limit=wanted)
    return see(studio.works.change(work, asked=asked, plan=None), "costs")


@router.get("/w/{name}/methods")
async def methods(request: Request, name: str) -> Response:
    """Show all methods side by side."""
    studio, work = studio_of(request), work_of(request, name)
    asked, model = studio.asked(work), studio.model(work)
    key = ("methods", work.model_name, asked)
    rows = studio.need(key, calls.methods, asked, model, later=True)
    measured = list(dict.fromkeys(one for row in rows for one in row.measures))
    return studio.page("methods", work=work, rows=rows, measured=measured, asked=asked)


@router.get("/w/{name}/lines")
async def lines(request: Request, name: str) -> Response:
    """Show leakage against DP level, and error against the limit."""
    studio, work = studio_of(request), work_of(request, name)
    asked, model, plan = studio.asked(work), studio.model(work), studio.plan(work)
    key = ("lines", work.model_name, asked)
    found = studio.need(key, calls.lines, asked, model, plan.dp_epsilon, later=True)
    drawn = [_drawn(leakage_chart, found.leakage), _drawn(cost_chart, found.errors)]
    return studio.page(
        "lines", work=work, found=found, leakage=drawn[0], errors=drawn[1], reasons=found.reasons
    )


def _asked(asked: AskedQuestion, plan: "Plan[Any] | None") -> AskedQuestion:
    """Return the question as it is shown beside a plan that was brought along."""
    return asked if plan is None else replace(asked, limit=plan.limit)


def _drawn(chart: Any, costs: Costs | None) -> Any:
    if costs is None:
        return None
    try:
        return chart(costs)
    except NotSupported:
        return None
