"""Importing undertow is quick, and every heavy package has its place."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "undertow"

# Never loaded by `import undertow`.
HEAVY = {
    "cryptography",
    "jinja2",
    "matplotlib",
    "narwhals",
    "networkx",
    "opendp",
    "pandas",
    "polars",
    "rich",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "threadpoolctl",
    "torch",
    "typer",
}
# The only files (or folders) that may import a package, at any depth of indentation.
PLACES = {
    "cryptography": ["sampling/streams.py", "plan.py"],
    "fastapi": ["serving/"],
    "jinja2": ["reporting/"],
    "matplotlib": ["figures/"],
    "narwhals": ["data/"],
    "numba": ["models/fitting/hidden.py"],
    "opendp": ["integrations.py"],
    "pandas": ["frames.py"],
    "polars": ["data/", "frames.py"],
    "psycopg": ["ledger/store.py"],
    "pyarrow": ["data/"],
    "pysam": ["data/genotypes.py"],
    "pyspark": ["data/readers/spark.py"],
    "rich": ["cli/"],
    "sklearn": ["models/fitting/judges.py"],
    "sqlalchemy": ["ledger/"],
    "threadpoolctl": ["models/fitting/judges.py"],
    "torch": [],
    "typer": ["cli/"],
    "uvicorn": ["serving/"],
}
PROBE = """
import json, sys
import undertow
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def probe():
    """Return the top-level packages loaded by `import undertow` in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def imported(path):
    """Return the top-level packages that a file imports anywhere, for type checking or not."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_import_loads_nothing_heavy():
    assert not HEAVY & set(probe())


def test_packages_are_imported_only_in_their_places():
    # what a file may import by its words; only such files are parsed
    named = re.compile(rf"^\s*(?:import|from)\s.*\b({'|'.join(PLACES)})\b", re.MULTILINE)
    strays = [
        f"{place} imports {package}"
        for path in sorted(SOURCE.rglob("*.py"))
        for place in [path.relative_to(SOURCE).as_posix()]
        if set(named.findall(path.read_text("utf-8")))
        for package in set(imported(path)) & PLACES.keys()
        if not place.startswith(tuple(PLACES[package]))
    ]
    assert not strays
