"""Every refusal that reaches a user derives from `UndertowError`: the source is read for others."""

import ast
import builtins
from pathlib import Path

import undertow

SOURCE = Path(undertow.__file__).parent

INSIDE = {
    ("bounds/trees/leakages.py", "OverflowError"),  # caught in the same file
    ("data/readers/files.py", "OSError"),  # files that are cut off: as files that cannot be read
    ("data/readers/files.py", "IndexError"),  # each is caught in the same file
    ("data/readers/files.py", "ValueError"),
    ("data/scopes.py", "ValueError"),  # of a stored event: reported as damage by the ledger
    ("data/codes.py", "OSError"),  # as of any other file that cannot be written
    ("ledger/amounts.py", "ValueError"),  # of stored text: reported as damage by the ledger
    ("ledger/keys.py", "PermissionError"),  # caught where the folder is made
    ("ledger/replay.py", "ValueError"),  # reported as damage by the ledger
    ("ledger/rules.py", "ValueError"),  # reported as damage by the ledger
    ("ledger/entries.py", "TypeError"),  # reported as damage by the ledger
    ("serving/accounts.py", "ValueError"),  # caught where the file is read
}
"""Files that raise an exception of Python's which another line of undertow's catches."""


def raised(path):
    """Yield the names of Python's own exceptions that a file raises."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        name = made.id if isinstance(made, ast.Name) else ""
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            yield name


def test_no_bare_exception_is_a_refusal():
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in raised(path)
        # a method that every subclass has, and a module without such a name
        if name not in ("NotImplementedError", "AttributeError")
    }
    assert found == INSIDE
