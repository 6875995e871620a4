"""The rule of docs/vectors/README.md, written again in plain whole numbers, sharing no code.

It made docs/vectors/flips.json (`python -m tests.sampling.port` writes it anew) and stands in for
a port to another language.
"""

import json
from fractions import Fraction
from pathlib import Path

VECTORS = Path(__file__).parents[2] / "docs" / "vectors" / "flips.json"
FULL = 2**64


class Reader:
    """Bytes read in order."""

    def __init__(self, content):
        self.rest = list(content)

    def take(self, count):
        taken, self.rest = self.rest[:count], self.rest[count:]
        if len(taken) < count:
            raise EOFError
        return int.from_bytes(bytes(taken), "big")


def number(rows, first, further):
    """The number of a record, of which seven bytes are read only if some row needs them."""
    byte = first.take(1)
    low, high = byte * 2**56, (byte + 1) * 2**56
    undecided = any(low < threshold < high for row in rows for threshold in row)
    return low + (further.take(7) if undecided else 0)


def output(row, drawn):
    return len([threshold for threshold in row if threshold <= drawn])


def flips(thresholds, series, first, further):
    return [
        [output(thresholds[x], number([thresholds[x]], first, further)) for x in records]
        for records in series
    ]


def erasures(thresholds, protect, series, first, further):
    made = []
    for records in series:
        shown = []
        for place, x in enumerate(records):
            row = [thresholds[place][x]]
            kept = output(row, number([row], first, further)) == 1
            shown.append(x if kept and place not in protect else None)
        made.append(shown)
    return made


def start(flips_of, further):
    """Whether noise begins with a flip, by the digits of a fraction."""
    share = Fraction(*flips_of)
    while True:
        drawn = further.take(8)
        whole = share * FULL // 1
        if drawn != whole:
            return int(drawn < whole)
        share = share * FULL - whole
        if not share:
            return 0


def noise(thresholds, flips_of, series, first, further):
    starts = [start(flips_of, further) for _ in series]
    made = []
    for records, state in zip(series, starts, strict=True):
        outputs = []
        for place, x in enumerate(records):
            if place:
                state = output(thresholds[state], number(thresholds, first, further))
            else:
                first.take(1)
            outputs.append(x ^ state)
        made.append(outputs)
    return made


def replay(vector):
    """The outputs of a vector, and how many bytes of each stream are left."""
    first, further = (Reader(bytes.fromhex(vector[name])) for name in ("first", "further"))
    rows = [[int(text, 16) for text in row] for row in vector["thresholds"]]
    match vector["kind"]:
        case "flips":
            made = flips(rows, vector["records"], first, further)
        case "erasures":
            made = erasures(rows, vector["protect"], vector["records"], first, further)
        case "noise":
            share = [int(vector["start"][name], 16) for name in ("flips", "of")]
            made = noise(rows, share, vector["records"], first, further)
    return made, (len(first.rest), len(further.rest))


def load():
    return json.loads(VECTORS.read_text("utf-8"))["vectors"]


# --- how the file was made ------------------------------------------------------------------------


def grains(*probabilities):
    """Thresholds of probabilities given in parts of 2^53: running sums, the last one left out."""
    total, made = 0, []
    for probability in probabilities[:-1]:
        total += probability * 2**11
        made.append(total)
    return made


def hexadecimal(rows):
    return [[f"{threshold:016x}" for threshold in row] for row in rows]


def spread(seed, count):
    """Bytes that look random and need no library: a multiplicative sequence."""
    state, made = seed, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        made.append(state >> 56)
    return bytes(made)


def made(name, kind, rows, series, first, further, **more):
    """A vector with the outputs of the rule above, and no byte too many."""
    vector = {"name": name, "kind": kind, "thresholds": hexadecimal(rows), **more}
    vector |= {"first": first.hex(), "further": further.hex(), "records": series}
    outputs, left = replay(vector)
    used = [len(content) - rest for content, rest in zip((first, further), left, strict=True)]
    vector |= {"first": first[: used[0]].hex(), "further": further[: used[1]].hex()}
    return {**vector, "outputs": outputs}


def examples():
    one = 2**53
    tenth = one // 10 + 1
    binary = [grains(one - tenth, tenth), grains(3 * tenth, one - 3 * tenth)]
    border = binary[0][0]
    ends = [border - 1, border, border + 1]
    yield made("decided by the first byte", "flips", binary, [[0, 1, 0, 1]],
               bytes([0, 0, 255, 255]), b"")  # fmt: skip
    yield made("one below the threshold, on it, one above", "flips", binary, [[0, 0, 0]],
               bytes(end >> 56 for end in ends),
               b"".join((end % 2**56).to_bytes(7, "big") for end in ends))  # fmt: skip
    quarter = [grains(3 * one // 4, one // 4), grains(one // 2, one // 2)]
    yield made("thresholds between bytes are never undecided", "flips", quarter,
               [[0, 0, 1, 1]], bytes([191, 192, 127, 128]), b"")  # fmt: skip
    yield made("chances 0 and 1", "flips", [[FULL], [0]], [[0, 1, 0, 1]],
               bytes([0, 0, 255, 255]), b"")  # fmt: skip
    small = one // 1000
    close = [grains(one - 2 * small, small, small), grains(small, one - 2 * small, small),
             grains(small, small, one - 2 * small)]  # fmt: skip
    yield made("two thresholds in one byte", "flips", close, [[0, 0, 0, 2, 2, 2, 1]],
               bytes([255, 255, 255, 0, 0, 0, 0]), spread(1, 49))  # fmt: skip
    wide = [grains(one // 3, one // 3, one // 3, one - 3 * (one // 3)),
            grains(one // 7, one // 7, one // 7, one - 3 * (one // 7))]  # fmt: skip
    yield made("more outputs than states", "flips", wide, [[0, 1] * 8],
               bytes([0x55, 0x24, 0xAA, 0x49, 0xFF, 0x6D, 0x54, 0x6E]) + spread(2, 8),
               spread(3, 112))  # fmt: skip
    eight = [
        grains(*(one - 7 * (one // 20) if x == y else one // 20 for y in range(8)))
        for x in range(8)
    ]
    series = [[x % 8 for x in range(40)], [3, 3, 3, 5]]
    yield made("eight states, two series", "flips", eight, series, spread(4, 44), spread(5, 308))
    long = [[x // 3 % 2 for x in range(200)]]
    yield made("two hundred records", "flips", binary, long, spread(6, 200), spread(7, 1400))
    table = [[0, 0], [one // 5 * 2**11, 0], [one // 3 * 2**11, one // 2 * 2**11], [FULL, FULL],
             [FULL, one // 3 * 2**11], [0, 0]]  # fmt: skip
    yield made("a redaction of six records, four series", "erasures", table,
               [[0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1]],
               bytes([9, 50, 128, 3, 4, 5, 0, 51, 127, 255, 85, 6]) + spread(8, 12),
               spread(9, 140), protect=[3])  # fmt: skip
    rho0, rho1 = 2**11 * tenth, 2**11 * 2 * tenth
    moves = [[FULL - rho0], [rho1]]
    fraction = Fraction(rho0, rho0 + rho1)
    share = {"flips": f"{fraction.numerator:x}", "of": f"{fraction.denominator:x}"}
    yield made("a noise chain, one series", "noise", moves, [[x // 5 % 2 for x in range(120)]],
               spread(10, 120), spread(11, 900), start=share)  # fmt: skip
    yield made("a noise chain, three series", "noise", moves, [[0] * 9, [1], [1, 0] * 6],
               spread(12, 22), spread(13, 200), start=share)  # fmt: skip
    odd = Fraction(2 * tenth, 2 * tenth + 2**50)
    second = (odd * FULL - odd * FULL // 1) * FULL // 1
    share = {"flips": f"{odd.numerator:x}", "of": f"{odd.denominator:x}"}
    moves = [[FULL - 2**11 * 2 * tenth], [2**61]]
    yield made("a start that eight bytes leave open", "noise", moves, [[0, 0, 1]],
               bytes([7, 1, 250]),
               int(odd * FULL // 1).to_bytes(8, "big") + int(second - 1).to_bytes(8, "big"),
               start=share)  # fmt: skip
    yield made("a start below, above and on a whole border", "noise", [[3 * 2**62], [3 * 2**62]],
               [[0], [0], [0]], bytes(3),
               b"".join((2**62 + step).to_bytes(8, "big") for step in (-1, 1, 0)),
               start={"flips": "1", "of": "4"})  # fmt: skip


def main():
    lines = ",\n".join("  " + json.dumps(vector) for vector in examples())
    head = '{"format": "undertow-flips-vectors", "version": 1, "vectors": [\n'
    VECTORS.write_text(head + lines + "\n]}\n", "utf-8")


if __name__ == "__main__":
    main()
