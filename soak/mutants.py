"""Small defects, one at a time, in a copy of the sources: does some test notice each of them?

    python soak/mutants.py                 all of them; writes soak/mutants-result.md
    python soak/mutants.py --only 3 17     these numbers, printed and not written
    python soak/mutants.py --check         only whether every text is found once

A mutant names a file of a distribution, a text that occurs in it once, what takes its place, and
the tests to try, in which the gate, `-m "not soak"`, is run until the first failure; the test that
noticed it the last time comes before them. One that survives them is tried against all such tests
with --wide. A text that is not found is an error: the sources have moved on, and so must the
mutant. The sources themselves are never touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "soak" / "mutants-result.md"
SOURCES = ("src", "papers/src", "studio/src")
COPIED = (
    "src", "papers", "studio", "tests", "examples", "docs", "pyproject.toml", "README.md",
    "ARCHITECTURE.md",
)  # fmt: skip
PATIENCE = 1200.0
SELECTION = ("-x", "-q", "--assert=plain", "-m", "not soak", "-p", "no:cacheprovider")

sys.path.insert(0, str(ROOT / "soak"))
from mutant_list import MUTANTS  # noqa: E402


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: killed, survived, or an error of the list."""

    number: int
    word: str
    by: str
    seconds: float


def place(tree: Path, file: str) -> Path:
    """Return the path of a module of one of the distributions."""
    return next(
        (path for source in SOURCES if (path := tree / source / file).is_file()), tree / file
    )


def problems() -> Iterator[str]:
    """Yield what is wrong with the list itself."""
    for number, (file, old, new, tests) in enumerate(MUTANTS):
        path = place(ROOT, file)
        found = path.read_text("utf-8").count(old) if path.is_file() else 0
        if found != 1:
            yield f"{number}: {file} has {old!r} {found} times"
        if old == new:
            yield f"{number}: {file} is not changed"
        missing = [test for test in tests.split() if not (ROOT / test).exists()]
        if missing:
            yield f"{number}: there is no {' '.join(missing)}"


def copied(folder: Path) -> Path:
    """Copy what the tests need into a folder of its own."""
    junk = shutil.ignore_patterns("__pycache__", "_build", ".*_cache")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=junk)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(tree: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """Run tests in the copy; the exit code, None where they did not end, and who failed first."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(tree / name) for name in (*SOURCES, ".")),
        "PYTHONDONTWRITEBYTECODE": "1",  # a changed file of the same length and second
    }
    command = [sys.executable, "-m", "pytest", *SELECTION, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "it does not end"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, lines[0].split(" - ")[0] if lines else done.stdout[-200:]


def killers() -> dict[str, str]:
    """Return which test noticed a mutant the last time, by what the mutant puts in."""
    rows = RESULT.read_text("utf-8").splitlines() if RESULT.is_file() else []
    found = (row.replace("\\|", "\0").split(" | ") for row in rows if "| FAILED " in row)
    return {
        cells[3].strip("`").replace("\0", "|"): cells[5].removeprefix("FAILED ").replace("\0", "|")
        for cells in found
    }


def tried(tree: Path, number: int, wide: bool, first: str | None) -> Verdict:
    """Put a mutant into the copy, run its tests, and take it out again."""
    file, old, new, tests = MUTANTS[number]
    path = place(tree, file)
    text = path.read_text("utf-8") if path.is_file() else ""
    if text.count(old) != 1:
        return Verdict(number, "error", f"the text is there {text.count(old)} times", 0.0)
    began = time.monotonic()
    path.write_text(text.replace(old, new), "utf-8")
    try:
        code, said = (0, "") if first is None else run(tree, [first])
        if code != 1:  # survived, or there is no such test any more
            code, said = run(tree, tests.split())
        if code == 0 and wide:
            code, said = run(tree, ["tests"])
    finally:
        path.write_text(text, "utf-8")
    words = {0: "survived", 1: "killed", 2: "killed", None: "killed"}
    seconds = time.monotonic() - began
    return Verdict(number, words.get(code, "error"), "" if code == 0 else said, seconds)


def controlled(tree: Path, numbers: Sequence[int]) -> None:
    """Refuse to begin where the tests fail without any mutant: all would be called killed."""
    tests = sorted({test for number in numbers for test in MUTANTS[number][3].split()})
    code, said = run(tree, tests)
    if code != 0:
        raise SystemExit(f"without a mutant the tests end with {code}: {said}")


def told(verdicts: Sequence[Verdict]) -> str:
    """Return the summary as a page."""
    count = Counter(verdict.word for verdict in verdicts)
    lines = [
        "# Mutants", "",
        (f"{len(verdicts)} tried: {count['killed']} killed, {count['survived']} survived, "
        f"{count['error']} errors."), "",
        "| number | file | old | new | verdict | by | seconds |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for verdict in verdicts:
        file, old, new, _ = MUTANTS[verdict.number]
        cells = [str(verdict.number), file, f"`{old}`", f"`{new}`", verdict.word, verdict.by]
        shown = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
        lines.append(f"| {' | '.join(shown)} | {verdict.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try the mutants asked for; 1 if any survived or was not found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of mutants")
    parser.add_argument("--check", action="store_true", help="only look for the texts")
    parser.add_argument("--wide", action="store_true", help="all tests for those that survive")
    parser.add_argument("--control", action="store_true", help="first run the tests without any")
    asked = parser.parse_args()
    wrong = list(problems())
    if asked.check:
        sys.stdout.write("\n".join([*wrong, f"{len(MUTANTS)} mutants, {len(wrong)} errors\n"]))
        return bool(wrong)
    numbers = asked.only or range(len(MUTANTS))
    verdicts, before = [], killers()
    with tempfile.TemporaryDirectory(prefix="undertow-mutants-") as folder:
        tree = copied(Path(folder))
        if asked.control:
            controlled(tree, numbers)
        for number in numbers:
            first = before.get(" ".join(MUTANTS[number][2].split()))
            verdicts.append(tried(tree, number, asked.wide, first))
            one = verdicts[-1]
            sys.stdout.write(
                f"{number} {MUTANTS[number][0]}: {one.word} {one.by} ({one.seconds:.0f} s)\n"
            )
            sys.stdout.flush()
            if asked.only is None:
                RESULT.write_text(told(verdicts), "utf-8")
    return any(verdict.word != "killed" for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
