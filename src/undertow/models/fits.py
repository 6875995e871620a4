"""Which fit is asked for: of order one, two or hidden, of records as they are or through noise."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.models.fitting import FittedChain, fit_chain
from undertow.models.second_order_fits import FittedSecondOrderChain, fit_second_order
from undertow.models.sequences import encode
from undertow.numerics import shown
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.hidden_fitting import FittedHiddenChain
    from undertow.models.private_fits import PrivateFit

__all__ = ["fit"]


def fit(
    sequences: Any, states: Sequence[State] | None, *, order: Any, prior: float,
    length: int | None, public: bool, private: float | None, ledger: Any, confidence: float,
    release_id: str | None, missing: State | None = None,
) -> "FittedChain | FittedSecondOrderChain | FittedHiddenChain | PrivateFit":  # fmt: skip
    """Return the fit that `MarkovChain.fit` was asked for, or refuse what does not go together."""
    counted = isinstance(order, int | np.integer) and not isinstance(order, bool)
    hidden = isinstance(order, str) and order == "hidden"
    if not hidden and (not counted or order not in (1, 2)):
        raise InvalidInput(
            f"order must be 1, 2 or 'hidden', found {shown(order)}: for a longer memory say "
            "'hidden', or give each public context a matrix of its own (fit_by_context)"
        )
    if missing is not None and (private is not None or missing in ("any", "none")):
        raise InvalidInput(
            "missing names a state of the fitted model, other than 'any' and 'none', in which the "
            "missing records are; a private fit takes no such state: leave missing or private out"
        )
    if private is not None:
        if order != 1:
            raise InvalidInput("a private fit is of order 1; leave order out, or private")
        if public:
            raise InvalidInput("records are public, or the fit is private: not both")
        learn = import_module("undertow.learning").private_fit  # above: it draws noise
        found: PrivateFit = learn(
            sequences, states, level=private, ledger=ledger, confidence=confidence, prior=prior,
            length=length, release_id=release_id,
        )  # fmt: skip
        return found
    if ledger is not None or release_id is not None:
        raise InvalidInput("a ledger accounts for a private fit; say private=LEVEL")
    if hidden:
        for name, given in (("a prior", prior), ("missing", missing is not None)):
            if given:
                raise InvalidInput(f"{name} is for chains of order one and two; leave it out")
        from undertow.models.hidden_fitting import fit_hidden  # heavy

        return fit_hidden(sequences, states, length=length, public=public, attractive=True)
    make = fit_chain if order == 1 else fit_second_order
    # warnings are about the line that called `MarkovChain.fit`
    how: Any = {"prior": prior, "length": length, "public": public, "stacklevel": 3 + order}
    if missing is None:
        return make(sequences, states, **how)
    fitted = make(encode(sequences, states).filled(missing), None, **how)
    return fitted.with_records(replace(fitted.records, missing=missing))
