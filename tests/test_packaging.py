"""What is built is whole, the same twice, and works in an environment of its own."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import undertow

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = DECLARED["project"]
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))
}
REPORTS = """
import undertow as ut
plan = ut.calibrate(ut.Count(1), ut.MarkovChain([[.9, .1], [.2, .8]]), limit=1.0)
page = ut.release(plan, [0, 1, 1, 0] * 10).report().html()
print(ut.__file__, "<html" in page)
"""


def build(source, out, *what):
    told = CLEAN | {"SOURCE_DATE_EPOCH": "1767225600", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", out, source]
    subprocess.run(command, env=told, check=True, capture_output=True)
    return {path.name: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is built from it."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    archive = next(path for name, path in built.items() if name.endswith(".tar.gz"))
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    return next(folder.iterdir())


def test_two_builds_are_the_same_to_the_bit(built, unpacked, tmp_path):
    """The second is made of the unpacked archive, in another place: that is whole, too."""
    again = build(unpacked, tmp_path)
    assert sorted(built) == sorted(again)
    assert len(built) == 2
    for name, path in built.items():
        assert path.read_bytes() == again[name].read_bytes(), name


def test_the_archives_hold_what_they_must(built, unpacked):
    wheel = next(path for name, path in built.items() if name.endswith(".whl"))
    with zipfile.ZipFile(wheel) as held:
        names = set(held.namelist())
        scripts = next(name for name in names if name.endswith("entry_points.txt"))
        assert b"undertow = undertow.cli:main" in held.read(scripts)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/undertow"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    ours = {name.removeprefix("src/") for name in listed if (ROOT / name).is_file()}
    assert ours <= names  # templates, printed numbers, py.typed and all modules
    assert {"undertow/py.typed", "undertow/reporting/templates/report.html.j2"} <= names
    with zipfile.ZipFile(wheel) as held:
        metadata_file = next(name for name in names if name.endswith("/METADATA"))
        page = held.read(metadata_file).decode("utf-8")
    assert "Privacy for data whose records depend" in page
    assert not re.search(r"\]\((?!https?:|#)", page)  # a package's page has no files beside it
    extra = {name for name in names - ours if ".dist-info/" not in name}
    assert not extra
    for name in (
        "LICENSE",
        "README.md",
        "verifier/undertow_verify.c",
        "scripts/sbom",
        "docs/conf.py",
    ):
        assert (unpacked / name).is_file(), name


def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path):
    wheels = [path for name, path in built.items() if name.endswith(".whl")]
    for other in ("papers", "studio"):
        wheels += build(ROOT / other, tmp_path / other, "--wheel").values()
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], env=CLEAN, check=True)
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
         "--no-index", "--disable-pip-version-check", *wheels],
        env=CLEAN, check=True, capture_output=True,
    )  # fmt: skip
    place = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    # dependencies from here, without the distributions of this repository and their entry points
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "undertow" not in path.name:
            (dependencies / path.name).symlink_to(path)
    Path(place, "dependencies.pth").write_text(f"{dependencies}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(*command, **more):
        done = subprocess.run(
            command, cwd=elsewhere, env=CLEAN | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = home / "bin" / "undertow"
    assert run(command, "--version").strip() == f"undertow {undertow.__version__}"
    asked = ("leakage", "--transition", "0.9,0.1;0.2,0.8", "--epsilon", "1", "--json")
    assert json.loads(run(command, *asked))["upper"] > 1
    for other in ("reproduce", "studio"):  # commands of the other distributions
        assert f"undertow {other}" in run(command, other, "--help")
    where, drawn = run(python, "-c", REPORTS).split()
    assert Path(where).is_relative_to(home)
    assert drawn == "True"
    # the shell completes commands: the script, and what it asks
    assert "undertow" in run(command, _UNDERTOW_COMPLETE="source_bash")
    told = {"_UNDERTOW_COMPLETE": "complete_bash", "COMP_WORDS": "undertow lea", "COMP_CWORD": "1"}
    assert run(command, **told).split() == ["leakage"]


def test_the_bill_of_materials_is_whole_and_the_same_twice():
    bills = [
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "sbom", "plot"], check=True, capture_output=True
        )
        for _ in range(2)
    ]
    assert bills[0].stdout == bills[1].stdout
    bill = json.loads(bills[0].stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = {part["name"]: part for part in bill["components"]}
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["plot"]]
    for requirement in declared:
        name = requirement.partition(">")[0].partition("[")[0]
        assert parts[name]["version"] == metadata.version(name)
    assert len(parts) > len(declared)  # and what those need
    refs = {part["bom-ref"] for part in [*bill["components"], bill["metadata"]["component"]]}
    assert {entry["ref"] for entry in bill["dependencies"]} == refs
    assert all(set(entry["dependsOn"]) <= refs for entry in bill["dependencies"])
    assert sum("licenses" in part for part in parts.values()) > len(parts) / 2
    hole = subprocess.run(
        [sys.executable, "-S", ROOT / "scripts" / "sbom"], capture_output=True, check=False
    )
    assert hole.returncode != 0  # nothing is installed there


def test_what_is_declared_is_what_is_tested():
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: 3." in c]
    page = (ROOT / "docs" / "versions.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| 3.")]
    assert "| 3.11 | the whole gate |" in rows
    for version in versions:
        assert any(version in row.split("|")[1] for row in rows), version
    assert "Operating System :: POSIX :: Linux" in PROJECT["classifiers"]
    assert "Operating System :: OS Independent" not in PROJECT["classifiers"]


def locked(name):
    """Return the requirements of a file of exact versions, by name."""
    text = (ROOT / "requirements" / name).read_text("utf-8")
    pins = [Requirement(line.rstrip(" \\")) for line in re.findall(r"^\w.*", text, re.MULTILINE)]
    return {canonicalize_name(pin.name): pin for pin in pins}, text


def test_the_lock_has_a_hash_and_an_allowed_version_of_everything_declared():
    pins, text = locked("dev.txt")
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    groups = [one for group in DECLARED["dependency-groups"].values() for one in group]
    names = [*PROJECT["dependencies"], *extras, *(one for one in groups if isinstance(one, str))]
    for requirement in map(Requirement, names):
        name = canonicalize_name(requirement.name)
        if name not in {"torch", "undertow"}:  # torch: of every machine its own build
            (version,) = pins[name].specifier
            assert requirement.specifier.contains(version.version), name
    blocks = re.split(r"\n(?=\w)", text.partition("\n")[2].rstrip())
    assert len(blocks) >= len(pins)
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_oldest_versions_tried_are_the_floors():
    pins, _ = locked("lowest.txt")
    for requirement in map(Requirement, PROJECT["dependencies"]):
        (floor,) = (one for one in requirement.specifier if one.operator == ">=")
        (version,) = pins[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(version.version)
        if requirement.name != "typing-extensions":  # the test tools ask for a newer one
            assert version.version.startswith(floor.version), requirement.name


@pytest.mark.parametrize("other", ["papers", "studio"])
def test_the_other_distributions_pin_the_version_of_the_core(other):
    project = tomllib.loads((ROOT / other / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == undertow.__version__
    assert f"undertow=={undertow.__version__}" in project["dependencies"]
