"""The verifier in C: built for the tests, with the compiler's checks of memory and arithmetic."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import undertow as ut
from undertow.certifying.document import Certificate
from undertow.errors import InvalidCertificate

SOURCE = Path(__file__).parents[1] / "verifier" / "undertow_verify.c"
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")
CHECKED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
WORDS = b'{}[]",:0123456789.eE+-\\ntrufalsx '


def build(folder: Path, *flags: str) -> Path:
    """Return the program; skip where there is no compiler, in continuous integration fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None and os.environ.get("CI") == "true":
        pytest.fail("the gate needs a C compiler (scripts/system-deps)", pytrace=False)
    if compiler is None:
        pytest.skip("the verifier needs a C compiler")
    made = folder / "undertow_verify"
    command = [compiler, *STRICT, *flags, "-o", str(made), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def judged(program: Path, text: str | bytes) -> tuple[int, str]:
    """Return the exit code and the line of the program; a fault of memory is a failure."""
    given = text if isinstance(text, bytes) else text.encode()
    done = subprocess.run([program, "-"], input=given, capture_output=True, check=False)
    assert not done.stderr, done.stderr.decode(errors="replace")
    assert done.stdout.count(b"\n") == 1
    return done.returncode, done.stdout.decode(errors="replace").strip()


def holds(text: str | bytes) -> bool:
    """Return whether the Python reader accepts it."""
    try:
        ut.verify(text)
    except InvalidCertificate:
        return False
    return True


def mangled(text: str, rng: random.Random) -> bytes:
    """Return the text with some bytes changed, left out, put in or repeated."""
    raw = bytearray(text.encode())
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(raw))
        match rng.randrange(5):
            case 0:
                raw[at] = rng.choice(WORDS)
            case 1:
                del raw[at : at + rng.choice((1, 1, 3, 40))]
            case 2:
                raw[at:at] = bytes(rng.choice(WORDS) for _ in range(rng.choice((1, 2))))
            case 3:
                raw[at:at] = raw[at : at + rng.choice((2, 10, 60))]
            case _:
                raw[at] = rng.randrange(256)
        if not raw:
            return b""
    return bytes(raw)


def agree(program: Path, certificate: Certificate, cases: int, seed: int) -> int:
    """Mangle a certificate; the readers must agree each time. Return how many both accept."""
    rng, text, accepted = random.Random(seed), certificate.to_json(), 0
    for _ in range(cases):
        mutant = mangled(text, rng)
        code, said = judged(program, mutant)
        assert (code == 0) == holds(mutant), (said, mutant)
        accepted += code == 0
    return accepted
