"""``undertow verify``: check the proof in a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import check_output, read_certificate, write_text
from undertow.cli.options import JsonOption, command
from undertow.cli.output import above, answer, show, waiting

if TYPE_CHECKING:
    from undertow.certifying.document import Certificate
    from undertow.plan import Plan

__all__ = ["check_place", "verify", "write_certificate"]


@command
def verify(
    certificate: Annotated[
        Path, typer.Argument(metavar="FILE", help="Certificate written by --certificate.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Verify that the proof in a certificate gives the upper end that it claims.

    Every step of the proof is recomputed, rounded up, without a search or a bound of undertow.
    verifier/undertow_verify.c in the sources is an independent verifier in C.

    \b
    Examples:
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1 \\
        --certificate certificate.json
      undertow verify certificate.json
    """
    text = read_certificate(certificate)
    with waiting("checking the proof"):
        from undertow.certifying.checking import verify as check
        from undertow.certifying.document import parse

        document = parse(text)
        proved = check(document)
    claim = document.claim
    fields = {
        "accepted": True, "claimed": claim.upper, "proved": proved, "against": claim.against,
        "mechanism": claim.mechanism, "proof": document.proof,
        "conditions": list(document.conditions), "assumptions": _assumed(document),
    }  # fmt: skip
    answer(fields, lambda: _show(document, proved), as_json=as_json)


def _assumed(certificate: "Certificate") -> list[str]:
    """Return the assumptions of a claim about all algorithms of a level."""
    from undertow.certificate import READS_STATES

    claim = certificate.claim
    level = claim.mechanism["kind"] == "pure-dp" and claim.against != "informed"
    return [READS_STATES] if level else []


def _show(certificate: "Certificate", proved: float) -> None:
    from undertow.adversaries import words
    from undertow.plan import doubts

    claim = certificate.claim
    length = "any length" if claim.length is None else f"{claim.length} records"
    rows = [
        ("mechanism", claim.mechanism["kind"]),
        ("model", f"Markov chain on {claim.size} states, {length}"),
        ("attacker", words(claim.against)),
        ("claimed", f"at most {above(claim.upper)}"),
        ("proved", f"at most {above(proved)}"),
        ("proof", certificate.proof),
        *(("assumes", each) for each in _assumed(certificate)),
        ("holds", "; ".join(certificate.conditions or doubts(()))),
    ]
    show("The certificate holds", rows)


def check_place(path: Path | None, *, force: bool) -> None:
    """Refuse a certificate that cannot be written there."""
    if path is not None:
        check_output(path, force=force)


def write_certificate(path: Path, asked: "tuple[Any, ...] | Plan[Any]", *, force: bool) -> str:
    """Write the certificate of a plan, or of a mechanism; return its claim in words."""
    from undertow.certifying.writing import certify
    from undertow.plan import Plan

    with waiting("finding a proof that others can check"):
        document = certify(asked) if isinstance(asked, Plan) else certify(*asked)
    write_text(path, document.to_json() + "\n", force=force)
    return f"at most {above(document.upper)}, in {path}"
