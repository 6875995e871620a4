"""Rules about the files themselves."""

import ast
import inspect
import re
import subprocess
from pathlib import Path

import pytest

import undertow

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "undertow"
MODULES = sorted(SOURCE.rglob("*.py"))
LINES_AT_MOST = 500
# Assembled, so that this file does not match itself.
ABSOLUTE = re.compile(
    r"(?<![\w.}>)~-])/(?:" + "|".join(("home", "work", "root", "tmp", "Users")) + r")/"
)
PUBLIC = [name for name in undertow.__all__ if not name.startswith("_")]


def text_files():
    """Return the files that are, or would be, under version control and are text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a version-controlled checkout")
    for name in sorted(set(filter(None, listed.stdout.decode().split("\0")))):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes():
            yield path


def by_kind(name):
    """Return the key that puts CONSTANTS before Classes before functions, each by name."""
    return not name.isupper(), not name[0].isupper(), name


def test_modules_are_short():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert lengths
    assert not [str(path) for path, lines in lengths.items() if lines > LINES_AT_MOST]


def test_no_absolute_path_is_written_down():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if ABSOLUTE.search(line)
    ]
    assert not found


def test_absolute_paths_would_be_found():
    for folder in ("home/someone", "tmp/x", "root/.cache"):
        assert ABSOLUTE.search(f'open("/{folder}/y")')
    assert not ABSOLUTE.search("a fraction such as root/total, or docs/tmp/x")


def exported(path):
    """Return the names that a module lists in its __all__."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_every_all_is_sorted():
    lists = {path: exported(path) for path in MODULES}
    assert any(lists.values())
    assert not [
        str(path) for path, names in lists.items() if names != sorted(set(names), key=by_kind)
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_documented_with_an_example(name):
    value = getattr(undertow, name)
    text = inspect.getdoc(value) or ""
    assert text.strip(), f"{name} has no docstring"
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    if not inspect.ismodule(value) and not is_error:
        assert ">>>" in text, f"the docstring of {name} shows no example"


def test_dir_lists_the_public_names():
    assert set(undertow.__all__) <= set(dir(undertow))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        undertow.no_such_name  # noqa: B018


def test_no_module_bears_the_name_of_a_public_function():
    functions = {name for name in PUBLIC if inspect.isfunction(getattr(undertow, name))}
    modules = {path.parent.name if path.stem == "__init__" else path.stem for path in MODULES}
    assert not functions & modules


def test_every_path_of_the_map_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    tree = text.partition("```text\nsrc/undertow/\n")[2].partition("```")[0]
    places: list[tuple[int, Path]] = [(0, SOURCE)]
    missing = []
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        first = line.split()[0] if line.split() else ""
        named = re.findall(r"\b\w+\.py\b", line)
        if first.endswith(("/", ".py")):  # else the line before goes on
            while len(places) > 1 and places[-1][0] >= indent:
                places.pop()
        if first.endswith("/"):
            places.append((indent, places[-1][1] / first))
        missing += [f"{places[-1][1].name}/{name}" for name in named
                    if not (places[-1][1] / name).is_file()]  # fmt: skip
    assert not missing
    for name in re.findall(r"`([\w/]+(?:\.py|\.md|/))`", text.partition("```\n")[2]):
        homes = (ROOT, SOURCE, ROOT / "docs")
        assert any((home / name).exists() for home in homes), name
