"""Step 2: what depends on what: the model as a picture, how memory fades, and what was tested."""

import json

from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow.models.registry import model_to_dict
from undertow.studio.code import code_for_model
from undertow.studio.studio import studio_of, work_of

__all__ = ["router"]

router = APIRouter()


@router.get("/w/{name}/depends")
async def depends(request: Request, name: str) -> Response:
    """Show the model, and what was tested of it."""
    studio, work = studio_of(request), work_of(request, name)
    model, fit = studio.model(work), studio.fit(work)
    return studio.page(
        "depends", work=work, model=model, fit=fit, checks=model.checks,
        described=model.describe(), code=code_for_model(work),
    )  # fmt: skip


@router.get("/w/{name}/model.json")
async def model_file(request: Request, name: str) -> Response:
    """Return the model as a file that commands read."""
    studio, work = studio_of(request), work_of(request, name)
    text = json.dumps(model_to_dict(studio.model(work)), indent=2) + "\n"
    headers = {"Content-Disposition": 'attachment; filename="model.json"'}
    return Response(text, media_type="application/json", headers=headers)
