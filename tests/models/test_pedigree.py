"""Pedigrees: files, checks, and Mendel's laws allele by allele."""

import gzip
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.networks import genotype_joint
from undertow.errors import InvalidInput, InvalidModel, UnknownState
from undertow.models.pedigrees import GENOTYPES, MENDEL, Pedigree, hardy_weinberg

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
TRIO = {"kim": ("bob", "ann")}

FAMILIES: dict[str, Any] = {
    "trio": ({"kim": ("bob", "ann")}, ["kim", "bob", "ann"]),
    "duo": ({"kim": (None, "ann")}, ["kim", "ann"]),
    "siblings": ({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, ["kim", "lee", "bob", "ann"]),
    "half-siblings": ({"kim": ("bob", None), "lee": ("bob", None)}, ["kim", "lee", "bob"]),
    "three generations": (
        {"bob": ("dad", None), "kim": ("bob", "ann")},
        ["bob", "dad", "kim", "ann"],
    ),
}


def real(name):
    """A file of the data folder, or skip."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no {name}: set UNDERTOW_DATA to the folder that holds it")
    return path


def test_mendel_is_table_3_of_lange2024():
    table: list[list[tuple[float, ...]]] = [
        [(1, 0, 0), (0.5, 0.5, 0), (0, 1, 0)],
        [(0.5, 0.5, 0), (0.25, 0.5, 0.25), (0, 0.5, 0.5)],
        [(0, 1, 0), (0, 0.5, 0.5), (0, 0, 1)],
    ]
    assert MENDEL.tolist() == [[list(cell) for cell in row] for row in table]
    assert hardy_weinberg(0.9) == pytest.approx([0.81, 0.18, 0.01])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("p", [0.5, 0.2])
def test_genotypes_follow_the_alleles(name, p):
    """Every family's joint law, against drawing alleles one by one."""
    parents, people = FAMILIES[name]
    pedigree = Pedigree(parents, p, people)
    (family,) = pedigree.families()
    network = family.network(p)
    assert set(network.observed) == set(people)
    truth = genotype_joint(parents, [str(person) for person in network.observed], p)
    joint = network.joint()
    for values in itertools.product(range(3), repeat=len(people)):
        assert joint[values] == pytest.approx(truth.get(values, 0.0), abs=1e-15)


def test_people_and_families():
    pedigree = Pedigree(
        {"kim": ("bob", "ann"), "lee": (None, None), "mo": ("pa", None)}, people=["zoe", "kim"]
    )
    assert pedigree.people == ("zoe", "kim", "bob", "ann", "lee", "mo", "pa")
    families = pedigree.families()
    assert [family.length for family in families] == [1, 3, 1, 2]
    assert [sum(family.latent) for family in families] == [0, 0, 0, 1]
    assert families[1].records == (1, 2, 3)
    assert [pedigree.people[record] for record in families[3].records] == ["mo", "pa"]
    assert pedigree.states == GENOTYPES
    assert pedigree.index("Bb") == 1
    with pytest.raises(UnknownState, match="'bB'"):
        pedigree.index("bB")


def test_latent_people_are_no_records():
    pedigree = Pedigree({"kim": ("bob", "ann")}, latent=["bob"])
    assert pedigree.people == ("kim", "ann")
    (family,) = pedigree.families()
    assert family.network(0.5).latent == ("bob",)
    hidden = Pedigree({"kim": ("bob", "ann")}, people=["mo"], latent=["kim", "bob", "ann"])
    assert [family.members for family in hidden.families()] == [("mo",)]


@pytest.mark.parametrize(
    ("parents", "options", "message"),
    [
        ({"kim": ("kim", "ann")}, {}, "'kim' is their own ancestor"),
        ({"kim": ("bob", "ann"), "bob": ("lee", None), "lee": ("kim", None)}, {},
         "is their own ancestor"),
        ({"kim": ("bob", "ann", "cy")}, {}, "'kim' has 3 parents"),
        ({"kim": ("bob",)}, {}, "'kim' has 1 parents"),
        ({"kim": "bob"}, {}, "parents of 'kim' must be a pair"),
        ({"kim": 7}, {}, "parents of 'kim'"),
        ({None: ("bob", "ann")}, {}, "a child needs a name"),
        ({"kim": ("bob", "bob")}, {}, "'bob' is both father and mother of 'kim'"),
        (TRIO, {"sexes": {"bob": 2}}, "'bob' is the father of 'kim' and female"),
        (TRIO, {"sexes": {"ann": "M"}}, "'ann' is the mother of 'kim' and male"),
        ({"kim": ("bob", "ann"), "lee": ("ann", "zoe")}, {}, "'ann' is the father of one"),
        (TRIO, {"sexes": {"cy": 1}}, "'cy' is given, who is not in the pedigree"),
        (TRIO, {"people": ["kim", "kim"]}, "'kim' is listed twice"),
        (TRIO, {"latent": ["cy"]}, "latent person 'cy'"),
        (TRIO, {"latent": ["kim", "bob", "ann"]}, "at least one person"),
        (TRIO, {"allele_frequency": 0.0}, "between 0 and 1"),
        (TRIO, {"allele_frequency": 1.0}, "between 0 and 1"),
        (TRIO, {"allele_frequency": (0.5, 0.2)}, "between 0 and 1"),
        (TRIO, {"allele_frequency": (0.1, 0.2, 0.3)}, "found 3 numbers"),
        (TRIO, {"allele_frequency": "rare"}, "between 0 and 1"),
        (TRIO, {"allele_frequency": float("nan")}, "between 0 and 1"),
        ([("kim", "bob", "ann")], {}, "must be a dictionary"),
    ],
)  # fmt: skip
def test_malformed_pedigrees_are_refused(parents, options, message):
    with pytest.raises(InvalidModel, match=message):
        Pedigree(parents, **options)


@pytest.mark.parametrize("code", [0, "0", "", " ", "-9", "unknown", "other", None])
def test_unknown_sexes_are_legal(code):
    assert not Pedigree(TRIO, sexes={"bob": code, "ann": code, "kim": code}).sexes


@pytest.mark.parametrize("frequency", [0.3, (0.05, 0.5), (0.25, 0.25)])
def test_written_and_read_again(frequency):
    pedigree = Pedigree(
        {"kim": ("bob", None), "lee": ("bob", "ann")}, frequency, ["zoe"], {"bob": "M"}, ["ann"]
    )
    again = Pedigree.from_dict(json.loads(json.dumps(pedigree.to_dict())))
    assert again == pedigree
    assert hash(again) == hash(pedigree)
    assert again.describe() == pedigree.describe()
    assert pedigree != Pedigree(TRIO)


@pytest.mark.parametrize(
    "broken",
    [{}, {"parents": 3}, {"parents": [["kim", "bob", "ann"], ["kim", "bob", "cy"]]},
     {"parents": [[]]}, {"parents": [["kim", "bob"]]}],
)  # fmt: skip
def test_damaged_descriptions(broken):
    with pytest.raises(InvalidModel):
        Pedigree.from_dict(broken)


# --- files ----------------------------------------------------------------------------------------


def written(tmp_path, text, name="family.ped"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_ped_file(tmp_path):
    """Blanks, zero sex, a header, comments, a parent without a line, and an unknown parent."""
    text = (
        "#Family ID\tIndividual ID\tPaternal ID\tMaternal ID\tGender\tPhenotype\n"
        "f1\tbob\t0\t0\t1\t-9\n"
        "f1\tann\t0\t0\t2\t-9\n"
        "# a note\n"
        "\n"
        "f1\tkim\tbob\tann\t\t-9\n"
        "f2\tlee\tdan\t0\t0\t-9\n"
    )
    for name in ("a.ped", "a.ped.gz"):
        pedigree = Pedigree.read(written(tmp_path, text, name), (0.05, 0.5))
        assert pedigree.people == ("bob", "ann", "kim", "lee")
        assert pedigree.latent == ("dan",)
        assert pedigree.parents == {"kim": ("bob", "ann"), "lee": ("dan", None)}
        assert pedigree.sexes == {"bob": "male", "ann": "female"}
        assert [sum(family.latent) for family in pedigree.families()] == [0, 2]


def test_fam_and_csv_files(tmp_path):
    fam = "f bob 0 0 1 -9\nf ann 0 0 2 -9\nf kim bob ann 0 -9\n"
    csv = "famid,id,fatherid,motherid,sex\nf,bob,0,0,M\nf,ann,,,F\nf,kim,bob,ann,\n"
    short = "sample,father,mother\nbob,,\nann,,\nkim,bob,ann\n"
    expected = Pedigree.read(written(tmp_path, fam, "x.fam"))
    for text, name in ((csv, "x.csv"), (short.replace(",", "\t"), "x.txt")):
        again = Pedigree.read(written(tmp_path, text, name))
        assert (again.people, again.parents) == (expected.people, expected.parents)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f bob 0 0 1 0\nf bob 0 0 1 0\n", "line 2: person 'bob' of family 'f' is listed twice"),
        ("f bob 0 0 2 0\nf kim bob 0 0 0\n", "'bob' is the father of 'kim' and female"),
        ("f kim lee 0 0 0\nf lee kim 0 0 0\n", "is their own ancestor"),
        ("f bob\n", "line 1 of the pedigree file has 2 columns"),
        ("", "names nobody"),
        ("# nothing\n", "names nobody"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        Pedigree.read(written(tmp_path, text))


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot read the pedigree file none\.ped"):
        Pedigree.read(tmp_path / "none.ped")
    binary = tmp_path / "x.ped"
    binary.write_bytes(bytes([0xFF, 0xFE, 0x00, 0x81] * 9))
    with pytest.raises(InvalidInput, match="not text"):
        Pedigree.read(binary)
    broken = tmp_path / "x.ped.gz"
    broken.write_bytes(gzip.compress(b"f bob 0 0 1 0\n" * 50)[:-9])
    with pytest.raises(InvalidInput, match="cannot read"):
        Pedigree.read(broken)


@pytest.mark.parametrize(
    ("name", "people", "families", "largest", "latent"),
    [
        ("pedigree/ceph1463.ped", 17, 1, 17, 0),
        ("pedigree/sample_ped.csv", 55, 3, 40, 0),
        ("genomes/20130606_g1k.ped.gz", 3501, 2103, 6, 121),
        ("genomes/hapmap_samples.csv", 279, 160, 3, 1),
    ],
)
def test_real_files(name, people, families, largest, latent):
    pedigree = Pedigree.read(real(name), (0.05, 0.5))
    found = pedigree.families()
    assert pedigree.length == people
    assert len(found) == families
    assert max(family.length for family in found) == largest
    assert sum(sum(family.latent) for family in found) == latent
    assert len({family.shape() for family in found}) <= 16
