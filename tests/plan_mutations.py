"""Plan files that somebody changed: one random edit or a few, and a checksum that fits them."""

import copy
import hashlib
import json
import math
import random
from typing import Any

from undertow.methods import METHODS

__all__ = ["PUBLISHED", "mutated", "places", "signed"]

PUBLISHED = {m.name for known in METHODS.values() for m in known.values() if not m.certified}

WORDS = (
    "exact", "exchange", "quilt", "quilt-approx", "wasserstein", "group", "dependent", "lange",
    "zhao", "gaussian-bound", "xor", "chakrabarti", "optimal", "mq", "mq-printed", "3r-constant",
    "person", "record", "any", "ignorant", "informed", "series", "windows", "laplace",
    "discrete-laplace", "count", "histogram", "sum", "mean", "linear", "flips", "redaction",
    "markov-chain", "context-chain", "groups", "set", "box", "mixing", "gaussian", "network",
    "stationary",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**6, 10**18, 10**400, -(10**30), 0.0, -0.0, 0.5, 1.0, 1e-9,
    1e-300, 5e-324, 1e308, -2.5, "", "x", "0.5", "\x1b[31m", "\u202e", "\ud800", [], {}, [[]], [0],
    [None], {"kind": "groups", "size": 2}, {"target": 0, "known": []}, "a" * 2000,
)  # fmt: skip


def signed(body: dict[str, Any]) -> str:
    """The text of a plan with this content and a checksum that fits it."""
    body = {key: value for key, value in body.items() if key != "checksum"}
    content = {key: value for key, value in body.items() if key != "signature"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**body, "checksum": hashlib.sha256(canonical.encode()).hexdigest()})


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON tree but its root."""
    found: list[tuple[Any, ...]] = [] if path == () else [path]
    parts: Any = ()
    if isinstance(tree, dict):
        parts = tree.items()
    elif isinstance(tree, list):
        parts = enumerate(tree)
    for key, part in parts:
        found += places(part, (*path, key))
    return found


def _changed(value: Any, draw: random.Random) -> Any:
    """Another value in the place of one: near it, of another type, or odd."""
    if isinstance(value, bool) or draw.random() < 0.25:
        return copy.deepcopy(draw.choice(ODD))
    if isinstance(value, int):
        return draw.choice(
            [value + 1, value - 1, value * 2, -value, float(value % 10**9), str(value)]
        )
    if isinstance(value, float):
        factor = draw.choice([0.999, 1.001, 0.5, 2.0, 1e-3, 1e3, -1.0, 1 - 1e-9, 1 + 1e-13])
        near = [value * factor, math.nextafter(value, draw.choice([-9e9, 9e9]))]
        return draw.choice([*near, near[0], str(value), [value], int(min(value, 1e9))])
    if isinstance(value, str):
        return draw.choice([*WORDS, value + "x", value.upper()])
    if isinstance(value, list) and value:
        other = list(value)
        match draw.randrange(5):
            case 0:
                other.pop(draw.randrange(len(other)))
            case 1:
                other.append(copy.deepcopy(draw.choice(other)))
            case 2:
                draw.shuffle(other)
            case 3:
                other.append(draw.choice(ODD))
            case _:
                return value[0]
        return other
    if isinstance(value, dict) and value:
        keys = dict(value)
        if draw.random() < 0.5:
            keys.pop(draw.choice(list(keys)))
        else:
            keys[draw.choice(["note", "kind", "length", "scale", "x"])] = draw.choice(ODD)
        return keys
    return copy.deepcopy(draw.choice(ODD))


def mutated(body: dict[str, Any], draw: random.Random, others: list[dict[str, Any]]) -> str:
    """The text of a plan file after one to three edits, with the checksum of what it now says."""
    body = copy.deepcopy(body)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if draw.random() < 0.15:  # a part of another plan
            key = draw.choice(["model", "leakage", "method", "limit", "scale", "query"])
            other = draw.choice(others)
            if key in other:
                body[key] = copy.deepcopy(other[key])
            continue
        path = draw.choice(places({k: v for k, v in body.items() if k not in ("format",)}))
        inner: Any = body
        for key in path[:-1]:
            inner = inner[key]
        if isinstance(inner, dict) and draw.random() < 0.1:
            del inner[path[-1]]
        else:
            inner[path[-1]] = _changed(inner[path[-1]], draw)
    return signed(body)
