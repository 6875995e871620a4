"""Stub."""
from typing import Any
def brief(release: Any) -> str:
    return ""
