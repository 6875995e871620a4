"""Step 1, drawn: a chain by its transitions, a family, a household, a correlation."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import FormData, QueryParams

from undertow.errors import InvalidInput, UndertowError
from undertow.models.chains import MarkovChain
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.networks import Contagion
from undertow.models.pedigrees import Pedigree
from undertow.models.sets import AnyModel
from undertow_studio.pages.depends import picture_of
from undertow_studio.refusals import in_words
from undertow_studio.studio import Studio, see, studio_of

__all__ = ["router"]

router = APIRouter()

LEAST, MOST = 2, 6
"""States of a chain that is drawn."""

_TITLES = {
    "chain": "Records in a row",
    "family": "A family of your own",
    "household": "A household of your own",
    "correlation": "Measurements that are correlated",
}
_FAMILY = "child = father + mother\nsister = father + mother"
_PEOPLE, _LETTERS = 60, 4000

Form = FormData | QueryParams


@router.get("/draw/{kind}")
async def draw(request: Request, kind: str) -> Response:
    """Show the model that is being drawn, as far as the form says it."""
    studio = studio_of(request)
    model, wrong = None, ""
    try:
        model = _model(kind, request.query_params)
    except UndertowError as error:
        wrong = in_words(error)
    return _page(studio, kind, request.query_params, model, wrong)


@router.post("/draw/{kind}")
async def drawn(request: Request, kind: str) -> Response:
    """Take the model that was drawn."""
    studio, form = studio_of(request), await request.form()
    try:
        model = _model(kind, form)
    except UndertowError as error:
        return _page(studio, kind, form, None, in_words(error), 422)
    return see(studio.works.begin(_TITLES[kind], "drawn", model=model), "depends")


def _page(
    studio: Studio, kind: str, form: Form, model: AnyModel | None, wrong: str = "",
    status: int = 200,
) -> Response:  # fmt: skip
    if kind not in _TITLES:
        raise InvalidInput(f"what can be drawn is {', '.join(_TITLES)}")
    content: dict[str, Any] = {"kind": kind, "title": _TITLES[kind], "family": _FAMILY}
    if kind == "chain":
        size = _size(form)
        content |= {"size": size, "names": _names(form, size), "weights": _weights(form, size)}
    picture = None if model is None else picture_of(model)[1]
    described = "" if model is None else model.describe()
    return studio.page(
        "draw", status, wrong=wrong, picture=picture, described=described,
        given={name: str(form.get(name, "")) for name in form}, **content,
    )  # fmt: skip


def _model(kind: str, form: Form) -> AnyModel:
    match kind:
        case "chain":
            return _chain(form)
        case "family":
            return _pedigree(form)
        case "household":
            if str(form.get("how", "any")) == "any":
                return Groups(_whole(form, "size", 4, 1, 1000))
            ends = _share(form, "least", 0.1), _share(form, "most", 0.5)
            return Contagion(_whole(form, "size", 4, 1, 8), _share(form, "outside", 0.1), ends)
        case "correlation":
            size = _whole(form, "size", 4, 2, 50)
            rho, mean = _real(form, "rho", 0.5), _real(form, "mean", 0.0)
            spread = _real(form, "deviation", 1.0)
            if not -1 < rho < 1 or not spread > 0:
                raise InvalidInput("a correlation lies between -1 and 1, a deviation above 0")
            table = [
                [spread**2 * (1.0 if i == j else rho) for j in range(size)] for i in range(size)
            ]
            return MultivariateGaussian([mean] * size, table)
    raise InvalidInput(f"what can be drawn is {', '.join(_TITLES)}")


def _chain(form: Form) -> MarkovChain:
    """Return the chain of some sliders: each row of weights is divided by its sum."""
    size = _size(form)
    rows = []
    for weights in _weights(form, size):
        total = sum(weights)
        if not total > 0:
            raise InvalidInput("from each state something must follow: move a slider of its row")
        row = [round(weight / total, 6) for weight in weights]
        row[row.index(max(row))] += 1 - sum(row)
        rows.append(row)
    return MarkovChain(rows, _names(form, size))


def _pedigree(form: Form) -> Pedigree:
    parents: dict[str, tuple[str, str]] = {}
    text = str(form.get("family", _FAMILY))[:_LETTERS]
    for line in text.splitlines():
        if not line.strip():
            continue
        child, equals, rest = line.partition("=")
        both = [part.strip() for part in rest.split("+")]
        if not equals or len(both) != 2 or not all([child.strip(), *both]):
            raise InvalidInput("write each child on a line of its own: child = father + mother")
        if child.strip() in parents:
            raise InvalidInput("a child is on two lines; each has one")
        parents[child.strip()] = (both[0], both[1])
    if not parents or len(parents) > _PEOPLE:
        raise InvalidInput(f"a family has 1 to {_PEOPLE} children")
    ends = _share(form, "rare", 0.05), _share(form, "common", 0.5)
    return Pedigree(parents=parents, allele_frequency=ends)


def _size(form: Form) -> int:
    text = str(form.get("states", LEAST))
    return int(text) if text in map(str, range(LEAST, MOST + 1)) else LEAST


def _names(form: Form, size: int) -> tuple[str, ...]:
    usual = ("inactive", "active") if size == LEAST else tuple("ABCDEF"[:size])
    given = [str(form.get(f"name{place}", "")).strip()[:40] for place in range(size)]
    return tuple(name or usual[place] for place, name in enumerate(given))


def _weights(form: Form, size: int) -> list[list[float]]:
    stay = 80.0
    return [
        [
            _real(form, f"p{row}-{column}", stay if row == column else (100 - stay) / (size - 1))
            for column in range(size)
        ]
        for row in range(size)
    ]


def _real(form: Form, name: str, usual: float) -> float:
    text = str(form.get(name, "")).strip()
    try:
        found = float(text) if text else usual
    except ValueError:
        raise InvalidInput("a number is required") from None
    if not abs(found) <= 1e9:
        raise InvalidInput("a number of ordinary size is required")
    return found


def _share(form: Form, name: str, usual: float) -> float:
    found = _real(form, name, usual)
    if not 0 <= found <= 1:
        raise InvalidInput("a probability lies between 0 and 1")
    return found


def _whole(form: Form, name: str, usual: int, least: int, most: int) -> int:
    found = _real(form, name, usual)
    if found != int(found) or not least <= found <= most:
        raise InvalidInput(f"a whole number from {least} to {most} is required")
    return int(found)
