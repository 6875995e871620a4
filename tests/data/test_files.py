"""Files that are too much, not what they say, or not what they were: typed errors, in time."""

import gzip
import io
import os
import random
import tempfile
from pathlib import Path

import polars as pl
import pytest

import undertow as ut
from tests.data.test_frames import read_sequences
from tests.grids import each
from undertow.data.readers.files import LONGEST_LINE, check_pages
from undertow.data.series import read_numbers
from undertow.data.table import Data
from undertow.errors import InvalidInput, UndertowError

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=(0, 1))


def test_ordinary_long_files_are_read(tmp_path):
    path = tmp_path / "table.csv.gz"
    row, size = b"1," + b"x" * 4096 + b"\n", LONGEST_LINE // 4000
    path.write_bytes(gzip.compress(b"v,w\n" + row * size, compresslevel=1))
    assert Data(path, value="v").answers(ut.Count(1)).numbers == [[size]]


# --- garbage --------------------------------------------------------------------------------------

TABLE = pl.DataFrame(
    {
        "p": ["a", "b"] * 50, "t": list(range(100)), "v": [n % 3 for n in range(100)],
        "x": [n / 2 for n in range(100)], "s": [f"u{n % 7}" for n in range(100)],
    }
)  # fmt: skip
VCF = (
    b"##fileformat=VCFv4.2\n##contig=<ID=22>\n"
    b'##FORMAT=<ID=GT,Number=1,Type=String,Description="G">\n'
    b"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tA\tB\n"
    b"22\t100\trs1\tA\tG\t.\t.\t.\tGT\t0/1\t1/1\n22\t200\trs2\tA\tG\t.\t.\t.\tGT\t0/0\t./1\n"
)


def parquet(**options) -> bytes:
    file = io.BytesIO()
    TABLE.write_parquet(file, **options)
    return file.getvalue()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut off, cut out, bits flipped, footer or pages overwritten, or random after the magic."""
    made = bytearray(content)
    start = rng.randrange(len(made))
    match rng.randrange(6):
        case 0:
            return bytes(made[:start])
        case 1:
            for _ in range(rng.choice([1, 2, 8, 64])):
                made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        case 2:
            end = min(len(made), start + rng.choice([1, 4, 16, 200]))
            made[start:end] = rng.randbytes(end - start)
        case 3:
            for _ in range(rng.choice([1, 2, 5])):
                made[-1 - rng.randrange(min(len(made), 400))] = rng.randrange(256)
        case 4:
            del made[start : rng.randrange(start, len(made) + 1)]
        case _:
            return bytes(made[:8]) + rng.randbytes(rng.randrange(400))
    return bytes(made)


def typed(ask, *arguments, **options) -> bool:
    """Whether an answer came; anything but a typed error is raised."""
    said: UndertowError | None = None
    try:
        ask(*arguments, **options)
    except UndertowError as error:
        said = error
    quoted = said is not None and not said.__suppress_context__ and said.__context__ is not None
    assert not quoted  # the error of a library could quote the file
    return said is None


def ask_all(path: Path) -> None:
    for options in (
        {"value": "v"},
        {"value": "x", "person": "p", "time": "t", "every": 1},
        {"value": "s", "by": "p", "state": "x > 3"},
        {"value": "s", "person": "p", "time": "t", "every": 1, "gaps": "u1"},
    ):
        try:
            data = Data(path, **options)
        except UndertowError:
            continue
        for ask in (data.shape, data.identity, data.sequences, data.problems):
            typed(ask)
        typed(data.answers, ut.Histogram(), ("u1", "u2"))
        typed(data.answers, ut.Sum(0, 1))
    typed(read_sequences, path, "v", person="p")
    typed(read_sequences, path, "v", state="x > 3")
    typed(read_numbers, path, ["x", "v"])


@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_garbage_gives_typed_errors(kind, tmp_path):
    rng = random.Random(14)
    text = TABLE.write_csv().encode()
    bases = [parquet(), parquet(compression="uncompressed"), parquet(compression="snappy")]
    path = tmp_path / f"table.{kind}"
    for _ in range(16):
        if kind == "parquet":
            content = damaged(rng.choice(bases), rng)
        else:
            content = rng.choice(
                [damaged(gzip.compress(text), rng), gzip.compress(damaged(text, rng)),
                 gzip.compress(rng.randbytes(300)), gzip.compress(text) + b"garbage"]
            )  # fmt: skip
        path.write_bytes(content)
        ask_all(path)


@pytest.mark.parametrize("kind", ["plain", "gzip", "blocks"])
def test_garbage_that_should_be_variants_gives_typed_errors(kind, tmp_path):
    pysam = pytest.importorskip("pysam")
    from undertow.data.genotypes import read_genotypes

    rng = random.Random(15)
    base, path = VCF, tmp_path / ("table.vcf" if kind == "plain" else "table.vcf.gz")
    if kind == "gzip":
        base = gzip.compress(VCF)
    elif kind == "blocks":
        with pysam.BGZFile(str(path), "w") as file:
            file.write(VCF)
        base = path.read_bytes()
    for _ in range(200):
        packs = kind != "plain" and rng.random() < 0.4
        path.write_bytes(gzip.compress(damaged(VCF, rng)) if packs else damaged(base, rng))
        typed(read_genotypes, path, "rs1")
        typed(read_genotypes, path, "22:200", ["A"])
    for content in (b"", b"\x1f\x8b", b"BCF\2\2", b"PAR1PAR1", b"\0" * 99, gzip.compress(b"")):
        path.write_bytes(content)
        assert not typed(read_genotypes, path, "rs1")


def test_a_page_that_announces_too_much_is_refused(tmp_path):
    """Polars would ask for two exabytes and end the process, which no one could catch."""
    path = tmp_path / "table.parquet"
    whole = parquet(compression="uncompressed")
    path.write_bytes(whole)
    check_pages(path)
    refused = 0
    for place in range(4, 60):  # the header of the first page is among them
        path.write_bytes(whole[:place] + b"\xff\xff\xff\xff\x0f" + whole[place + 5 :])
        if typed(check_pages, path):
            continue
        refused += 1
        with pytest.raises(InvalidInput, match="damaged, or not Parquet"):
            Data(path, value="v")
        assert not typed(read_sequences, path, "v")
    assert refused


@each(
    ("compression", "rows"),
    ["zstd", "snappy", "gzip", "lz4", "uncompressed"], [20_000, 100, 1, 0],
    few=8,
)  # fmt: skip
def test_whole_files_have_good_pages(compression, rows, tmp_path):
    path = tmp_path / "table.parquet"
    columns = {
        "v": range(rows), "long": ["x" * 5000] * rows, "text": [f"u{n}" for n in range(rows)],
        "list": [[n, n + 1] for n in range(rows)], "none": [None] * rows,
    }  # fmt: skip
    for size in (None, 70):
        pl.DataFrame(columns).write_parquet(path, compression=compression, row_group_size=size)
        check_pages(path)
        assert Data(path, value="v").shape().rows == rows


def test_one_wrong_time_makes_no_endless_series():
    frame = pl.DataFrame({"t": [0, 1, 2**60], "v": [0, 1, 1]})
    data = Data(frame, value="v", time="t", every=1, gaps=0)
    with pytest.raises(InvalidInput, match="too many to list"):
        data.sequences()
    assert data.shape().rows == 2**60 + 1


# --- files that change ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("how", ["written", "replaced", "touched", "removed"])
def test_a_file_that_changed_since_it_was_opened_is_refused(ending, how, tmp_path):
    path = tmp_path / f"table{ending}"
    frame = pl.DataFrame({"t": [0, 1], "v": [0, 1]})

    def write(table: pl.DataFrame, where: Path) -> None:
        text = table.write_csv().encode()
        if ending == ".parquet":
            table.write_parquet(where)
        else:
            where.write_bytes(gzip.compress(text) if ending == ".csv.gz" else text)

    write(frame, path)
    data = Data(path, value="v", time="t")
    assert data.source.seen.unchanged()
    assert data.shape().rows == 2
    other = frame.with_columns(pl.col("v").reverse())
    if how == "written":
        write(other, path)
    elif how == "replaced":
        with tempfile.NamedTemporaryFile(dir=tmp_path, suffix=ending, delete=False) as file:
            pass
        write(other, Path(file.name))
        Path(file.name).replace(path)
    elif how == "touched":
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()
    assert not data.source.seen.unchanged()
    for ask in (data.shape, data.identity, data.sequences, data.problems,
                lambda: data.answers(ut.Count(1), (0, 1))):  # fmt: skip
        with pytest.raises(InvalidInput, match="changed since it was opened"):
            ask()
    plan = ut.calibrate(ut.Count(1), CHAIN, limit=1.0, method="exchange")
    with pytest.raises(InvalidInput, match="changed since it was opened"):
        ut.release(plan, data)
    if how != "removed":
        assert Data(path, value="v", time="t").shape().rows == 2
