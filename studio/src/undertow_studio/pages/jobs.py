"""How far work is, for the page that waits, and its end."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from undertow_studio.rendering import render
from undertow_studio.studio import Gone, studio_of

__all__ = ["router"]

router = APIRouter()


@router.get("/jobs/{name}")
async def progress(request: Request, name: str) -> Response:
    """Return whether work has ended, and how far it is as a part of a page."""
    job = studio_of(request).jobs.find(name)
    if job is None:
        return JSONResponse({"ended": True, "part": ""})
    return JSONResponse({"ended": job.ended, "part": render("progress", job=job)})


@router.post("/jobs/{name}/cancel")
async def cancel(request: Request, name: str) -> Response:
    """End work, and go back to where the question can be changed."""
    job, form = studio_of(request).jobs.find(name), await request.form()
    if job is None:
        raise Gone
    job.cancel()
    back = str(form.get("back", ""))
    parts = back.split("/")
    own = (
        len(parts) == 4 and parts[1] == "w" and parts[2].replace("-", "").replace("_", "").isalnum()
    )
    if not own:
        return RedirectResponse("/", 303)
    page = "data" if parts[3] in ("depends", "question") else "question"
    return RedirectResponse(f"/w/{parts[2]}/{page}", 303)
