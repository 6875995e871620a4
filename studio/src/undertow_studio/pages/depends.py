"""Step 2: the model as a picture, how fast its memory fades, and the tests of its assumptions."""

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow import Groups, MarkovChain, MultivariateGaussian, Pedigree
from undertow.errors import InvalidModel, NotSupported
from undertow.models import Contagion, GaussianClass
from undertow.models.sets import AnyModel
from undertow_studio.charts.lines import fading_chart
from undertow_studio.charts.models import (
    chain_picture,
    correlation_picture,
    family_picture,
    group_picture,
)
from undertow_studio.code import code_for_model
from undertow_studio.fits import Fading, fading, findings
from undertow_studio.studio import studio_of, work_of

__all__ = ["picture_of", "router"]

router = APIRouter()


@router.get("/w/{name}/depends")
async def depends(request: Request, name: str) -> Response:
    """Show the model, how fast its memory fades, and what was tested of it."""
    studio, work = studio_of(request), work_of(request, name)
    model, fit = studio.model(work), studio.fit(work)
    pictured, picture = picture_of(model)
    faded = _fading(model)
    return studio.page(
        "depends", work=work, fit=fit, findings=findings(model.checks),
        plainly=plainly(model), described=model.describe(),
        pictured=pictured, picture=picture, fading=faded,
        memory=None if faded is None else fading_chart(faded), code=code_for_model(work),
    )  # fmt: skip


@router.get("/w/{name}/model.json")
async def model_file(request: Request, name: str) -> Response:
    """Return the model as a file that commands read."""
    studio, work = studio_of(request), work_of(request, name)
    text = json.dumps(studio.model(work).to_dict(), indent=2) + "\n"
    headers = {"Content-Disposition": 'attachment; filename="model.json"'}
    return Response(text, media_type="application/json", headers=headers)


def picture_of(model: AnyModel) -> tuple[str, Any]:
    """Return the picture of a model with its title, None where there is none."""
    match model:
        case MarkovChain():
            return "Transitions", chain_picture(model)
        case Pedigree():
            return "Pedigree", family_picture(model)
        case Contagion() | Groups():
            return "Group", group_picture(model.size)
        case MultivariateGaussian() | GaussianClass():
            return "Correlations", correlation_picture(model)
    return "", None


def plainly(model: AnyModel) -> str:
    """Return what a model says about its records, without a word of mathematics."""
    match model:
        case MarkovChain():
            return "Each record depends on the one before it, and through it on all earlier ones."
        case Pedigree():
            return "Relatives inherit their genotypes from common ancestors."
        case Contagion():
            return "People who live together infect each other."
        case Groups():
            return (
                "Records of one group may depend on each other in any way; groups are independent."
            )
        case MultivariateGaussian() | GaussianClass():
            return "Measurements are jointly Gaussian and correlated."
    return "Records depend on each other as the model says."


def _fading(model: AnyModel) -> Fading | None:
    if not isinstance(model, MarkovChain):
        return None
    try:
        return fading(model)
    except (NotSupported, InvalidModel):
        return None
