"""Genotypes from VCF files: every kind of entry, and every refusal; no genotype in a message."""

import gzip
import sys

import pytest

from undertow.data.genotypes import count_genotypes, genotype_table, read_genotypes
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported
from undertow.models.pedigrees import Pedigree

HEAD = """##fileformat=VCFv4.2
##contig=<ID=22,length=51304566>
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tbob\tann\tkim\tlee\tmo
"""
ROWS = [
    "22\t100\trs1\tA\tG\t.\t.\t.\tGT\t0/0\t0|1\t1/1\t./.\t0/.",
    "22\t200\trs2\tA\tG,T\t.\t.\t.\tGT\t0/0\t0/2\t1/2\t2/2\t1",
    "22\t300\trs3\tC\tT\t.\t.\t.\tGT\t1/1\t1/1\t1/1\t1/1\t1/1",
    "22\t300\trs4\tC\tG\t.\t.\t.\tGT\t0/1\t0/1\t0/1\t0/1\t0/1",
    "22\t400\trs5\tC\t.\t.\t.\t.\tGT\t0/0\t0/0\t0/0\t0/0\t0/0",
]


@pytest.fixture
def cohort(tmp_path):
    pytest.importorskip("pysam", reason="needs the extra genomics")
    path = tmp_path / "cohort.vcf"
    path.write_text(HEAD + "\n".join(ROWS) + "\n")
    return path


@pytest.mark.parametrize("locus", ["rs1", "22:100", ("22", 100)])
def test_genotypes(cohort, locus):
    assert read_genotypes(cohort, locus) == ["bb", "Bb", "BB", None, None]  # B is ALT
    assert read_genotypes(cohort, locus, allele="G") == read_genotypes(cohort, locus)
    assert read_genotypes(cohort, locus, allele="A") == ["BB", "Bb", "bb", None, None]
    assert read_genotypes(cohort, locus, ["kim", "bob"]) == ["BB", "bb"]
    assert count_genotypes(cohort, locus) == {"BB": 1, "Bb": 1, "bb": 1}


def test_plain_gzip(cohort, tmp_path):
    zipped = tmp_path / "zipped.vcf.gz"
    zipped.write_bytes(gzip.compress(cohort.read_bytes()))
    assert read_genotypes(zipped, "rs1") == read_genotypes(cohort, "rs1")
    with pytest.raises(InvalidInput, match="no locus"):
        read_genotypes(zipped, "rs9")
    with pytest.raises(InvalidInput, match="'zoe'"):  # while the file is still being fed
        read_genotypes(zipped, "rs1", ["zoe"])


def test_several_alleles(cohort):
    assert read_genotypes(cohort, "rs2", allele="A") == ["BB", "Bb", "bb", "bb", None]
    assert read_genotypes(cohort, "rs2", allele="T") == ["bb", "Bb", "Bb", "BB", None]
    assert read_genotypes(cohort, "rs4")[0] == "Bb"


def test_in_the_order_of_a_pedigree(cohort):
    trio = Pedigree({"kim": ("bob", "ann")})
    assert read_genotypes(cohort, "rs1", trio.people) == ["BB", "bb", "Bb"]


def test_the_name_of_a_table_says_which_allele_is_counted(cohort):
    """A ledger goes by it: an answer recorded for the other allele must not be given again."""
    named = [genotype_table(cohort, "rs1", allele=allele).reading()["source"] for allele in "AG"]
    assert named == ["cohort.vcf at rs1, allele A", "cohort.vcf at rs1, allele G"]
    assert genotype_table(cohort, "rs1").reading()["source"] == named[1]


@pytest.mark.parametrize(
    ("locus", "options", "message"),
    [
        ("rs9", {}, "no locus rs9"),
        ("22:999", {}, "no locus 22:999"),
        (("21", 100), {}, "no locus 21:100"),
        ("22:300", {}, "2 variants at 22:300"),
        ("rs1", {"people": ["zoe"]}, "'zoe' has no genotypes"),
        ("rs1", {"allele": "T"}, "no allele 'T'"),
        ("rs2", {}, "several alternative alleles: A, G, T .* say which is B"),
        ("rs5", {}, "no alternative allele: C "),
        (("22", 1, 2), {}, "a locus is"),
    ],
)
def test_refusals_do_not_quote_genotypes(cohort, locus, options, message):
    with pytest.raises(InvalidInput, match=message) as found:
        read_genotypes(cohort, locus, **options)
    assert "/" not in str(found.value).replace(cohort.name, "")
    assert "|" not in str(found.value)


def test_files_that_are_no_vcf(tmp_path, capfd):
    pytest.importorskip("pysam", reason="needs the extra genomics")
    for name, content in (
        ("a.txt", b"kim BB\n"), ("b.vcf", b""), ("c.vcf.gz", b"\x1f\x8b\x08nonsense"),
        ("d.vcf", b"##fileformat=VCFv4.2\nbroken\n"), ("e.bcf", bytes(range(256))),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"VCF|damaged|no locus"):
            read_genotypes(path, "rs1")
    with pytest.raises(InvalidInput, match="no file"):
        read_genotypes(tmp_path / "none.vcf", "rs1")
    assert "BB" not in capfd.readouterr().err


def test_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysam", None)
    with pytest.raises(NotSupported, match=r"pip install 'undertow\[genomics\]'"):
        read_genotypes(tmp_path / "cohort.vcf", "rs1")


# --- is the allele as frequent as the pedigree says? ----------------------------------------------

FOUNDERS = {f"child {i}": (f"father {i}", f"mother {i}") for i in range(20)}


def problems_of(copies, frequency, children="bb"):
    """What a curator is told of 40 founders with so many copies of B, and their 20 children."""
    pedigree = Pedigree(FOUNDERS, allele_frequency=frequency)
    given = iter(["BB"] * (copies // 2) + ["Bb"] * (copies % 2) + ["bb"] * 40)
    records = [children if person in FOUNDERS else next(given) for person in pedigree.people]
    return frequencies(Data(records).problems(model=pedigree))


def frequencies(problems):
    return [str(found) for found in problems if "allele" in found.what]


@pytest.mark.parametrize(
    ("copies", "frequency", "word"),
    [(70, (0.05, 0.5), "more frequent"), (6, (0.5, 0.9), "rarer"), (80, 0.5, "more frequent")],
)
def test_a_curator_is_told_that_the_frequency_does_not_fit(copies, frequency, word):
    (found,) = problems_of(copies, frequency)
    assert f"allele B is {word} among the founders than declared" in found
    assert str(copies) not in found.replace("0.05", "").replace("0.5", "")


def test_a_frequency_that_may_be_right_is_no_problem():
    assert problems_of(40, 0.5) == problems_of(2, (0.05, 0.5)) == problems_of(4, 0.05) == []
    assert problems_of(40, 0.5, children="BB") == []  # children are no further evidence
    pedigree = Pedigree(FOUNDERS, allele_frequency=0.9)
    assert frequencies(Data(["bb"] * 60).problems(model=pedigree)) != []
    assert frequencies(Data(["bb"] * 59).problems(model=pedigree)) == []  # other people
    assert frequencies(Data([None] * 60).problems(model=pedigree)) == []  # nothing known
