"""Who made a plan: Ed25519 signatures over the content of a plan file.

A checksum notices damage, not intent: whoever edits a plan can write a checksum that fits. A
signature says that the holder of a private key vouched for the plan as it is. It is optional; a
curator who says which public keys are trusted accepts signed plans only.
"""

import base64
import binascii
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.errors import InvalidInput, InvalidPlan
from undertow.plan_format import checksum, parse

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["check_private", "check_signature", "new_key", "public_key", "sign", "verified"]

PREFIX = "ed25519:"
_PRIME = 2**255 - 19
"""Of the field over which the curve of Ed25519 is."""
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = {1, _PRIME - 1, 0, _EIGHTH, _PRIME - _EIGHTH}
"""The y of the points whose order divides 8: under such a key anybody can sign anything."""
_WHAT = b"undertow plan, version 1, sha256 of its content: "


def new_key(path: str | Path) -> str:
    """Return a new public key; write it to ``path``.pub, and its private key to ``path``.

    The private file is readable by its owner only; neither replaces a file that is there.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     key = new_key(Path(folder) / "curator")
    >>> key[:8], len(key)
    ('ed25519:', 52)
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    written = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = _named(private)
    secret, open_ = Path(path), Path(f"{path}.pub")
    for place in (secret, open_):
        if place.exists():
            raise InvalidInput(f"{place} exists; choose another name for the new key")
    _write(secret, written, 0o600)
    _write(open_, (public + "\n").encode(), 0o644)
    return public


def public_key(text: str) -> str:
    """Return a public key as it is compared, from the content of a public key file.

    Refuses a key under which anybody can sign (a point of small order), and a second spelling of a
    key: trust in one would not be trust in the other.

    >>> public_key("ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\\n")[-4:]
    'URo='
    """
    key = text.strip()
    raw = _bytes(key.removeprefix(PREFIX))
    if not key.startswith(PREFIX) or len(raw) != 32 or key != _text(raw):
        raise InvalidInput(
            "a public key is one line such as ed25519:..., as 'undertow keys new' writes it"
        )
    y = int.from_bytes(raw, "little") % 2**255  # the first bit is the sign of x
    if y >= _PRIME or y in _SMALL_ORDER:
        raise InvalidInput(
            "this public key belongs to nobody: anybody can sign under it (a point of small order, "
            "or no canonical encoding); ask for the key that 'undertow keys new' wrote"
        )
    return key


def sign(text: str, private_key: str | Path) -> str:
    """Return a plan file with the signature of a private key file; any other signature goes.

    What is signed is the checksum of the content, so the layout of the file may change.
    """
    body = parse(text)
    if body.get("checksum") != checksum(body):
        raise InvalidPlan("the plan's checksum does not match its content; it is not signed")
    key = _read_private(Path(private_key))
    signature = {
        "algorithm": "ed25519",
        "public_key": _named(key),
        "signature": base64.b64encode(key.sign(_message(body))).decode(),
    }
    return json.dumps({**body, "signature": signature}, indent=2, allow_nan=False)


def check_private(path: str | Path) -> str:
    """Return the public key of a private key file, or say what is wrong with the file."""
    return _named(_read_private(Path(path)))


def check_signature(text: str, trusted: Iterable[str]) -> str:
    """Return the trusted public key that signed a plan file, or refuse the file."""
    return verified(parse(text), trusted) or ""


def verified(body: dict[str, Any], trusted: Iterable[str] | None) -> str | None:
    """Return the key that signed the content of a plan file, None where nobody did.

    A wrong signature is refused always, none or a stranger's where ``trusted`` is given.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    found = body.get("signature")
    if "signature" not in body:
        if trusted is not None:
            raise InvalidPlan("the plan is not signed, and only plans of trusted keys are accepted")
        return None
    read: dict[str, Any] = found if isinstance(found, dict) else {}
    plain = set(read) == {"algorithm", "public_key", "signature"}
    if not plain or not all(isinstance(part, str) for part in read.values()):
        raise InvalidPlan("the plan's signature is malformed; sign it again")
    if read["algorithm"] != "ed25519":
        raise InvalidPlan("the plan's signature is of an unknown kind; sign it again")
    try:
        key = public_key(read["public_key"])
    except InvalidInput as error:
        raise InvalidPlan(f"the plan's signature says nothing: {error}") from error
    try:
        public = Ed25519PublicKey.from_public_bytes(_bytes(key.removeprefix(PREFIX)))
        public.verify(_bytes(read["signature"]), _message(body))
    except (InvalidSignature, ValueError) as error:
        raise InvalidPlan(
            "the plan's signature does not match its content: it was edited after it was signed; "
            "ask its maker for the plan again"
        ) from error
    if trusted is not None and key not in {public_key(known) for known in trusted}:
        raise InvalidPlan(
            f"the plan is signed by {key}, which is not among the trusted keys; trust it, or ask "
            "for a plan by somebody who is"
        )
    return key


def _message(body: dict[str, Any]) -> bytes:
    return _WHAT + checksum(body).encode()


def _named(private: "Ed25519PrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return _text(raw)


def _text(raw: bytes) -> str:
    return PREFIX + base64.b64encode(raw).decode()


def _read_private(path: Path) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput(f"cannot read the key file {path}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} is no private key for plans; make one with 'undertow keys new NAME'"
        )
    return key


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error


def _bytes(text: str) -> bytes:
    """Return the bytes of a base64 text, b'' if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
