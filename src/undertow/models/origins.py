"""Where a model comes from, and so who may see what is made of it.

A fit looks at records. Without noise, and unless these are public, everything that follows from the
fit discloses something of them: the scale of the noise, the error bar, the outcome of a check. So
a plan on such a model is the curator's, and has no public form.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from undertow.errors import InvalidModel

__all__ = [
    "CURATORS",
    "Audience",
    "Origin",
    "audience_of",
    "check_origin",
    "fitted_origin",
    "weakest",
]

Origin = Literal["hand", "public", "private", "not public"]
"""Written by hand, fitted to public records, through noise, or to private records without noise."""

Audience = Literal["public", "curator"]
"""Who may see what is made of a model: everybody, or the curator of the records alone."""

CURATORS = (
    "the model was fitted to private records without noise, so that the scale of the noise, the "
    "error bar and the checks disclose something of them"
)
"""Why a paper is the curator's."""


def audience_of(origin: Origin) -> Audience:
    """Return who may see what is made of a model of this origin.

    >>> audience_of("private"), audience_of("not public")
    ('public', 'curator')
    """
    return "curator" if origin == "not public" else "public"


def check_origin(origin: Any) -> Origin:
    """Return an origin, or refuse what is none.

    >>> check_origin("public")
    'public'
    """
    for known in get_args(Origin):
        if isinstance(origin, str) and origin == known:
            return known  # type: ignore[no-any-return]
    raise InvalidModel(
        f"the origin of a model is {', '.join(map(repr, get_args(Origin)))}; found another"
    )


def fitted_origin(public: bool) -> Origin:
    """Return the origin of a model that was fitted to records without noise.

    >>> fitted_origin(False)
    'not public'
    """
    return "public" if public else "not public"


def weakest(origins: Iterable[Origin]) -> Origin:
    """Return the origin of what was made of several models: that of the one that discloses most.

    >>> weakest(["hand", "not public", "private"])
    'not public'
    """
    return max(origins, key=get_args(Origin).index, default="hand")
