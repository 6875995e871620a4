"""Everything the documentation shows is run: nothing stated there may go stale.

Blocks of a page run in order, in one directory. Python blocks share one namespace, and the comment
after a statement that prints, on its line or right below it, is what it must print. In console
blocks every ``$ undertow`` line must exit with 0 (or with the code of a trailing ``# exit N``), and
must print the lines below it, if there are any. ``...`` stands for anything. Blocks of R are known
by what they call: every ``system2("undertow", c(...))`` is run, and must exit with 0. Commands run
in this process, which remembers the plans that pages share; `tests/cli/test_entry.py` starts
processes."""

import ast
import contextlib
import doctest
import importlib
import io
import json
import re
import shlex
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import pytest

import undertow
from tests.cli.calls import call
from undertow import diagnostics, integrations, models

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if not {"_build", "_generated"} & set(page.parts)
    and not page.is_relative_to(ROOT / "docs" / "notebooks")  # made of the notebooks, which run
)
# Languages that are shown and not run. Directives of the page format start with a brace.
SHOWN = {"json", "text", "toml"}
EXEMPT_COMMANDS = (
    "make",
    "pip",
    "git",
    "cd",
    "python3 -m venv",
    "python -m pip",
    "undertow ledger serve",
    "undertow studio",
    "cc ",
    "./undertow_verify",
)
FENCE = re.compile(
    r"(?:^<!-- not-run: (?P<reason>[^\n]+?) -->\n+)?"
    r"^(?P<fence>`{3,})(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
CALLED = re.compile(r'system2\(\s*"undertow",\s*(?:args\s*=\s*)?c\((?P<given>[^()]*)\)')
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
EXIT = re.compile(r"\s+# exit (\d+)$")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    line: int
    exempt: bool


def blocks(text):
    """Return the fenced blocks of a page in order, with the line of the first line of each."""
    return [
        Block(
            fence["language"],
            fence["body"],
            text.count("\n", 0, fence.start("body")) + 1,
            bool(fence["reason"]),
        )
        for fence in FENCE.finditer(text)
    ]


def commands(block):
    """Return (line, arguments, exit code, wanted output) for each ``$`` line of a console block."""
    lines_run = []
    lines = block.body.splitlines()
    number = 0
    while number < len(lines):
        start, text = number, lines[number]
        number += 1
        if not text.startswith("$ "):
            raise ValueError(f"a console block starts with '$ ', found {text!r}")
        text = text.removeprefix("$ ")
        while text.endswith("\\"):
            text = text[:-1] + lines[number].removeprefix("> ")
            number += 1
        code = EXIT.search(text)
        output = []
        while number < len(lines) and not lines[number].startswith("$ "):
            output.append(lines[number] + "\n")
            number += 1
        arguments = shlex.split(EXIT.sub("", text))
        expected = int(code[1]) if code else 0
        lines_run.append((block.line + start, arguments, expected, "".join(output)))
    return lines_run


def comments(source):
    """Return the comment that ends each line, by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.string.lstrip("#").strip()
        for token in tokens
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
    }


def comments_below(source, line):
    """Return the comment lines that follow a line at once, None if there are none."""
    below = []
    for text in source.splitlines()[line:]:
        if not text.startswith("#"):
            break
        below.append(text.lstrip("#").strip())
    return "\n".join(below) or None


def matches(wanted, got):
    return doctest.OutputChecker().check_output(wanted.strip() + "\n", got.strip() + "\n", OPTIONS)


def run_python(block, namespace, page):
    """Execute a block statement by statement and compare what each prints with its comment."""
    stated = comments(block.body)
    for statement in ast.parse(block.body).body:
        printed = io.StringIO()
        line = block.line + statement.lineno - 1
        code = compile(ast.Module([statement], []), f"{page}:{line}", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        last = statement.end_lineno or statement.lineno
        wanted = stated.get(last, comments_below(block.body, last))
        if printed.getvalue() and wanted is not None:
            got = printed.getvalue()
            assert matches(wanted, got), f"{page}:{line}: says {wanted!r}, prints {got!r}"


def run_console(block, page):
    """Run the commands of a block and compare exit codes and output."""
    for line, arguments, code, wanted in commands(block):
        where = f"{page}:{line}: {shlex.join(arguments)}"
        assert arguments[0] == "undertow", f"{where}: only undertow commands are run"
        done = call(*arguments[1:])
        assert done.exit_code == code, f"{where}: exit {done.exit_code}\n{done.stderr}"
        got = done.stdout if code == 0 else done.stdout + done.stderr
        assert not wanted or matches(wanted, got), f"{where} prints\n{got}"


def calls_of(block, page):
    """Return the arguments of each call of undertow in a block of R."""
    calls = [QUOTED.findall(one["given"]) for one in CALLED.finditer(block.body)]
    whole = block.body.count('"undertow"')
    assert len(calls) == whole, f"{page}:{block.line}: a call of undertow that cannot be read"
    return calls


def run_r(block, page):
    """Run what a block of R calls; R itself is not needed."""
    for arguments in calls_of(block, page):
        where = f"{page}:{block.line}: {shlex.join(arguments)}"
        done = call(*arguments)
        assert done.exit_code == 0, f"{where}: exit {done.exit_code}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__docs__"}
    for block in blocks((ROOT / page).read_text("utf-8")):
        if block.exempt:
            continue
        if block.language == "python":
            run_python(block, namespace, page)
        elif block.language == "console":
            run_console(block, page)
        elif block.language == "r":
            run_r(block, page)


def test_every_block_is_run_or_exempt_for_a_reason():
    every = [(page, block) for page in PAGES for block in blocks((ROOT / page).read_text("utf-8"))]
    for page, block in every:
        where = f"{page}:{block.line}"
        if block.exempt:
            assert block.language == "console", f"{where}: only console blocks may be exempt"
            for _, arguments, _, _ in commands(block):
                command = shlex.join(arguments)
                assert command.startswith(EXEMPT_COMMANDS), f"{where}: {command} must run"
        elif not block.language.startswith("{"):
            languages = {"python", "console", "r"} | SHOWN
            assert block.language in languages, f"{where}: say the language of this block"


def test_a_wrong_comment_and_a_wrong_exit_code_are_noticed():
    with pytest.raises(AssertionError, match="says"):
        run_python(Block("python", "print(1 + 1)  # 3\n", 1, False), {}, "page")
    with pytest.raises(AssertionError, match="exit 2"):
        run_console(Block("console", "$ undertow no-such-command\n", 1, False), "page")
    source = 'x <- system2("undertow", c("leakage", "--no-such-option"), stdout = TRUE)\n'
    with pytest.raises(AssertionError, match="exit 2"):
        run_r(Block("r", source, 1, False), "page")
    with pytest.raises(AssertionError, match="cannot be read"):
        run_r(Block("r", 'system2("undertow", arguments)\n', 1, False), "page")
    run_python(Block("python", "print(1 / 3)  # 0.3333...\n", 1, False), {}, "page")
    run_console(Block("console", "$ undertow no-such-command  # exit 2\n", 1, False), "page")


NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
# Pages that are lists or records of something, and so have no next step.
LISTS = (
    "docs/adr/",
    "docs/benchmarks.md",
    "docs/changelog.md",
    "docs/references.md",
    "docs/vectors/",
)
LINK = re.compile(r"\]\([^)\s]+\)|\{(?:doc|func|class)\}`[^`]+`")
THEOREMS = (ROOT / "docs" / "theorems.md").read_text("utf-8")


def documented():
    return [page for page in PAGES if page.startswith("docs/") and not page.startswith(LISTS)]


@pytest.mark.parametrize("page", documented())
def test_page_ends_with_a_next_step(page):
    text = (ROOT / page).read_text("utf-8")
    # the navigation is no part of what is read, and the reference ends its pages itself
    text = re.sub(r"^```\{(toctree|eval-rst)\}.*?^```$", "", text, flags=re.M | re.S)
    last = "\n".join(text.rstrip().splitlines()[-6:])
    assert LINK.search(last), f"{page} ends without a link to go on with"


def test_every_theorem_has_its_code_and_its_test():
    rows = [line.split("|") for line in THEOREMS.splitlines() if "`tests/" in line and "|" in line]
    assert len(rows) >= 25
    for _, says, proof, code, test, _ in rows:
        name = code.strip().strip("`")
        home, _, last = name.rpartition(".")
        assert callable(getattr(importlib.import_module(home), last)), name
        assert (ROOT / test.strip().strip("`")).is_file(), test
        page, _, section = re.search(r"\]\(([^)#]+)(#?)([^)]*)\)", proof).groups()
        target = (ROOT / "docs" / page).read_text("utf-8")
        headings = re.findall(r"^#+ (.+)$", target, re.MULTILINE)
        anchors = {
            re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
        }
        assert not section or section in anchors, f"{says}: no section #{section} in {page}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "notebooks" / name).read_text("utf-8"))
    assert notebook["nbformat"] == 4
    namespace = {"__name__": "__notebook__"}
    for number, cell in enumerate(notebook["cells"]):
        assert cell["cell_type"] in {"code", "markdown"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "notebooks are kept without outputs"
            block = Block("python", "".join(cell["source"]) + "\n", 1, False)
            run_python(block, namespace, f"{name}, cell {number}")


def test_every_public_object_has_a_page():
    listed = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = set(re.findall(r"^\.\. auto(?:class|function):: (\S+)$", listed, re.MULTILINE))
    assert set(undertow.__all__) - named == {"__version__"}
    for module in (diagnostics, integrations, models):
        assert {f"{module.__name__}.{name}" for name in module.__all__} <= named


def test_there_are_three_notebooks():
    assert NOTEBOOKS == ["activity.ipynb", "existing-epsilon.ipynb", "family.ipynb"]


def test_a_spelling_mistake_is_noticed(tmp_path):
    (tmp_path / "page.md").write_text("recieve\n")
    command = [sys.executable, "-m", "codespell_lib", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0


FITTED = re.compile(
    r"undertow fit (\S+)[^\n$]*--public|\.fit\((?:ut\.Data\()?\"?([\w.]+)[^\n]*public=True"
)
RELEASED = re.compile(r"undertow release (\S+)|ut\.release\(\w+, (?:ut\.Data\()?\"?([\w.]+)")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_declares_public_what_it_releases(page):
    """The records that are fitted as public are others than those that are released."""
    text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
    fitted, released = (
        {one or other for one, other in pattern.findall(text)} for pattern in (FITTED, RELEASED)
    )
    assert not fitted & released


PLACE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:c|json|py|toml|txt))`")
GROUPS = ("undertow.attackers", "undertow.commands")  # entry points
DOTTED = re.compile(r"`(undertow(?:_papers|_studio)?(?:\.\w+)+)(?:\([^`]*\))?`")
HOMES = (ROOT, ROOT / "src", ROOT / "src" / "undertow")


def missing_names(text):
    """Yield the files, modules and attributes that a text names and that do not exist."""
    for place in PLACE.findall(text):
        if not any((home / place).exists() for home in HOMES):
            yield place
    names = {*DOTTED.findall(text)} - {*GROUPS}
    yield from (name for name in sorted(names) if value_of(name) is None)


def value_of(name):
    """Return the module or the attribute of a dotted name, None if there is none."""
    home, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(value_of(home), last, None) if home else None


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_object_that_a_page_names_exists(page):
    assert not list(missing_names((ROOT / page).read_text("utf-8")))


def test_a_name_that_does_not_exist_is_noticed():
    assert list(missing_names("`bounds/nowhere.py` and `undertow.nothing.at_all`")) == [
        "bounds/nowhere.py",
        "undertow.nothing.at_all",
    ]
