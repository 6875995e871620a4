"""The golden file: written, read, and compared with what is computed today."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden.cases import PLANS, answered, planned, questions

PLACE = Path(__file__).with_name("golden.json")
Golden = dict[str, dict[str, Any]]


def computed() -> Golden:
    """Return what the library says today."""
    leakages = {name: answered(*asked) for name, *asked in questions()}
    return {"leakages": leakages, "plans": {name: planned(*ask) for name, ask in PLANS.items()}}


def write(golden: Golden) -> None:
    """Write one line for each answer, so that a change shows which."""
    parts = []
    for part, answers in golden.items():
        lines = (f"    {json.dumps(name)}: {json.dumps(said)}" for name, said in answers.items())
        parts.append(f"  {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n  }")
    PLACE.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def read() -> Golden:
    """Return what was written."""
    return json.loads(PLACE.read_text("utf-8"))


def differences(before: Any, now: Any, within: float = 0.0, at: str = "") -> Iterator[str]:
    """Yield where two answers differ; numbers may differ by ``within``, relative above 1."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before.keys() | now.keys():
            yield from differences(before.get(name), now.get(name), within, f"{at} / {name}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, pair in enumerate(zip(before, now, strict=True)):
            yield from differences(*pair, within, f"{at}[{index}]")
    elif isinstance(before, float) and isinstance(now, int | float):
        near = before == now or abs(before - now) <= within * max(1.0, abs(before))
        if not near and not (math.isnan(before) and math.isnan(now)):
            yield f"{at}: {before!r} before, {now!r} now"
    elif before != now:
        yield f"{at}: {before!r} before, {now!r} now"
