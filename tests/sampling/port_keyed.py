"""Bits by address as docs/vectors/README.md has them, written again in plain whole numbers.

It made docs/vectors/keyed.json (`python -m tests.sampling.port_keyed` writes it anew) and stands in
for a port to another language: one record at a time, one block at a time, no code of the library.
"""

import hashlib
import json
from fractions import Fraction
from itertools import count
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.sampling.port import FULL, grains, hexadecimal, output

VECTORS = Path(__file__).parents[2] / "docs" / "vectors" / "keyed.json"
FIRST, FURTHER, START = 0, 1, 2


def derived(secret, purpose, content=b""):
    person = b"undertow " + purpose.encode()
    return hashlib.blake2b(content, digest_size=32, key=secret, person=person).digest()


def address(secret, label):
    own = derived(secret, "series")
    return hashlib.blake2b(label.encode(), digest_size=10, key=own).digest()


def block(secret, label, stream, index):
    """One block: address, stream, index; enciphered by itself."""
    plain = address(secret, label) + bytes([stream]) + index.to_bytes(5, "big")
    cipher = Cipher(algorithms.AES(derived(secret, "bits")), modes.ECB()).encryptor()
    return cipher.update(plain) + cipher.finalize()


def whole_number(secret, label, place):
    """All 64 bits of a record, needed or not."""
    first = block(secret, label, FIRST, place // 16)[place % 16]
    return first * 2**56 + int.from_bytes(block(secret, label, FURTHER, place)[:7], "big")


def number(rows, secret, label, place):
    """The number of a record, completed only if some row needs it."""
    drawn = whole_number(secret, label, place)
    low = drawn // 2**56 * 2**56
    undecided = any(low < threshold < low + 2**56 for row in rows for threshold in row)
    return drawn if undecided else low


def start(secret, label, share):
    for attempt in count():
        drawn = int.from_bytes(block(secret, label, START, attempt)[:8], "big")
        whole = share * FULL // 1
        if drawn != whole:
            return int(drawn < whole)
        share = share * FULL - whole
        if not share:
            return 0
    raise AssertionError


def flips(rows, secret, label, places, records):
    return [
        output(rows[x], number([rows[x]], secret, label, place))
        for place, x in zip(places, records, strict=True)
    ]


def erasures(rows, protect, secret, label, places, records):
    made = []
    for place, x in zip(places, records, strict=True):
        row = [rows[place][x]]
        kept = output(row, number([row], secret, label, place)) == 1
        made.append(x if kept and place not in protect else None)
    return made


def noise(rows, share, secret, label, places, records):
    """All steps are taken, absent ones too."""
    state, states = start(secret, label, share), {}
    for place in range(places[-1] + 1):
        if place:
            state = output(rows[state], number(rows, secret, label, place))
        states[place] = state
    return [x ^ states[place] for place, x in zip(places, records, strict=True)]


def digest(secret, series):
    total, own = 0, derived(secret, "digest")
    for label, places, records in series:
        if not records:
            continue
        content = len(label.encode()).to_bytes(8, "big") + label.encode()
        for place, x in zip(places, records, strict=True):
            content += place.to_bytes(8, "big") + x.to_bytes(2, "big")
        total += int.from_bytes(hashlib.blake2b(content, digest_size=32, key=own).digest(), "big")
    return (total % 2**256).to_bytes(32, "big")


def for_input(secret, found):
    return derived(secret, "input", found)


def replay(vector):
    """A vector with all that follows from the rest of it."""
    kept, rows = bytes.fromhex(vector["key"]), vector["thresholds"]
    rows = [[int(text, 16) for text in row] for row in rows]
    series = [(one["label"], one["places"], one["records"]) for one in vector["series"]]
    found = digest(kept, series)
    secret = for_input(kept, found)
    made = []
    for one in vector["series"]:
        told = (secret, one["label"], one["places"], one["records"])
        match vector["kind"]:
            case "flips":
                outputs = flips(rows, *told)
            case "erasures":
                outputs = erasures(rows, vector["protect"], *told)
            case "noise":
                share = Fraction(*(int(vector["start"][name], 16) for name in ("flips", "of")))
                outputs = noise(rows, share, *told)
        made.append({**one, "address": address(secret, one["label"]).hex(), "outputs": outputs})
    return {**vector, "digest": found.hex(), "input_key": secret.hex(), "series": made}


def load():
    return json.loads(VECTORS.read_text("utf-8"))["vectors"]


# --- how the file was made ------------------------------------------------------------------------


def named(label, records, places=None):
    return {
        "label": label,
        "places": list(range(len(records))) if places is None else places,
        "records": records,
    }


def made(name, kind, rows, *series, seed="", **more):
    key = hashlib.sha256((name + seed).encode()).digest().hex()
    vector = {"name": name, "kind": kind, "key": key, "thresholds": hexadecimal(rows), **more}
    return replay({**vector, "series": list(series)})


def examples():
    one = 2**53
    tenth = one // 10 + 1
    binary = [grains(one - tenth, tenth), grains(3 * tenth, one - 3 * tenth)]
    yield made("a series alone", "flips", binary, named("", [x // 3 % 2 for x in range(100)]))
    yield made("three persons", "flips", binary, named("0", [0, 1] * 20), named("1", [0, 1] * 20),
               named("Zoë\0", [1] * 9))  # fmt: skip
    far = [0, 1, 15, 16, 17, 40, 2**20, 2**32 - 1, 2**32, 2**40 - 1]
    yield made("absent steps, up to the last place", "flips", binary, named("7", [1, 0] * 5, far))
    eight = [
        grains(*(one - 7 * (one // 20) if x == y else one // 20 for y in range(8)))
        for x in range(8)
    ]
    yield made("eight states", "flips", eight, named("a", [x % 8 for x in range(60)]),
               named("b", [3, 3, 3, 5]))  # fmt: skip
    table = [[0, 0], [one // 5 * 2**11, 0], [one // 3 * 2**11, one // 2 * 2**11], [FULL, FULL],
             [FULL, one // 3 * 2**11], [0, 0]]  # fmt: skip
    records = [[x >> n & 1 for n in range(6)] for x in range(12)]
    yield made("a redaction of six records", "erasures", table,
               *(named(str(n), one) for n, one in enumerate(records)), protect=[3],
               seed="299")  # fmt: skip
    rho0, rho1 = 2**11 * tenth, 2**11 * 2 * tenth
    fraction = Fraction(rho0, rho0 + rho1)
    share = {"flips": f"{fraction.numerator:x}", "of": f"{fraction.denominator:x}"}
    gaps = [0, 1, 2, 9, 10, 31, 32, 33, 80]
    yield made("noise chains", "noise", [[FULL - rho0], [rho1]],
               named("ann", [x // 5 % 2 for x in range(120)]), named("bob", [0]),
               named("cy", [0] * 9, gaps), start=share)  # fmt: skip


def main():
    lines = ",\n".join("  " + json.dumps(vector, ensure_ascii=True) for vector in examples())
    head = '{"format": "undertow-keyed-vectors", "version": 1, "vectors": [\n'
    VECTORS.write_text(head + lines + "\n]}\n", "utf-8")


if __name__ == "__main__":
    main()
