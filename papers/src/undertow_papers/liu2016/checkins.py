"""Check-ins of friends: how far north people are, and what a noisy sum gives away about one.

A city publishes how far north its people are, added up, with Laplace noise. The attacker wants one
person, and knows everybody but this person and three close friends. Read from the Gowalla
check-ins of New York, or invented. The fragment of [liu2016] does not say how its own attack chose
users and places.
"""

import csv
import gzip
from collections import Counter, defaultdict
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from undertow.bounds.dependent import baseline_scale, fixed_point_scale, separation_upper
from undertow.numerics import Array

__all__ = [
    "BAND",
    "BANDS",
    "FRIENDS",
    "RANGE",
    "attack",
    "attack_errors",
    "circle_joint",
    "correlation",
    "invent_people",
    "noises",
    "pair_law",
    "read_people",
    "sum_laws",
]

BANDS, SOUTH, NORTH = 6, 40.65, 40.80  # bands of latitude from Brooklyn to Harlem
BAND = (NORTH - SOUTH) / BANDS * 111.2  # kilometres
RANGE = (BANDS - 1) * BAND  # how far one person can move the sum
SHARED = 3  # friends are close if they share so many places
FRIENDS = 3  # of each target, all unknown to the attacker

Ints: TypeAlias = npt.NDArray[np.int64]


def noises(joint: Array, epsilon: float) -> dict[str, float]:
    """Return the scales: plain, by dependence coefficients, and for people who are all alike.

    The target has the most friends and is the worst case. Coefficients of pairs prove nothing for
    four people, so what the noise leaks is computed apart.
    """
    places = np.arange(BANDS) * BAND

    def total(scale: float) -> float:
        return RANGE / scale + FRIENDS * separation_upper(joint, places, scale)

    return {
        "independent": RANGE / epsilon,
        "dependent": fixed_point_scale(total, epsilon, RANGE / epsilon),
        "identical": baseline_scale(FRIENDS + 1, RANGE, epsilon),
    }


def sum_laws(joint: Array, friends: int = FRIENDS) -> tuple[Array, Array]:
    """Return the law of the sum of a target and friends, for each band of the target.

    Friends are independent of each other given the target.
    """
    rows = joint / joint.sum(axis=1, keepdims=True)
    laws = np.zeros((BANDS, (friends + 1) * (BANDS - 1) + 1))
    for band in range(BANDS):
        law = np.ones(1)
        for _ in range(friends):
            law = np.convolve(law, rows[band])
        laws[band, band : band + len(law)] = law
    return laws, np.asarray(np.arange(laws.shape[1]) * BAND, dtype=np.float64)


def circle_joint(joint: Array, friends: int = FRIENDS) -> Array:
    """Return the joint law of a target and friends, shape (bands,) * (friends + 1).

    >>> circle_joint(np.full((6, 6), 1 / 36), friends=1).shape
    (6, 6)
    """
    rows = joint / joint.sum(axis=1, keepdims=True)
    tables = [reduce(np.multiply.outer, [row] * friends) for row in rows]
    prior = joint.sum(axis=1) / joint.sum()
    whole = np.stack([weight * table for weight, table in zip(prior, tables, strict=True)])
    return np.asarray(whole / whole.sum())


def attack(
    targets: Ints, joint: Array, scale: float, repeats: int, seed: int = 7
) -> tuple[float, float, float]:
    """Return the most that an answer gave away, and the mean errors of both attackers."""
    most, alone, friendly = attack_errors(targets, joint, scale, repeats, seed)
    return most, float(alone.mean()), float(friendly.mean())


def attack_errors(
    targets: Ints, joint: Array, scale: float, repeats: int, seed: int = 7
) -> tuple[float, Array, Array]:
    """Return the most that an answer gave away, and the errors of both attackers in kilometres.

    Both know the law of a person's place. One takes friends for strangers, one does not. What an
    answer gives away is the largest change of the log-odds between two bands.
    """
    rng = np.random.default_rng(seed)
    prior = joint.sum(axis=1) / joint.sum()
    truth = np.repeat(targets[:, 0], repeats)
    noisy = np.repeat(targets.sum(axis=1), repeats) * BAND + rng.laplace(0, scale, len(truth))
    errors = []
    for law in (np.outer(prior, prior), joint):
        laws, answers = sum_laws(law)
        seen = laws @ np.exp(-np.abs(answers[:, None] - noisy) / scale)
        posterior = prior[:, None] * seen
        below = np.cumsum(posterior / posterior.sum(axis=0), axis=0)
        guess = (below < 0.5).sum(axis=0)  # the median: the least expected distance
        errors.append(np.abs(guess - truth) * BAND)
    most = np.log(seen.max(axis=0) / seen.min(axis=0)).max()
    return float(most), errors[0], errors[1]


def pair_law(pairs: Ints) -> Array:
    """Return the joint law of two close friends: counts both ways, and a little of everything."""
    joint = np.full((BANDS, BANDS), 0.5)
    np.add.at(joint, (pairs[:, 0], pairs[:, 1]), 1.0)
    np.add.at(joint, (pairs[:, 1], pairs[:, 0]), 1.0)
    return np.asarray(joint / joint.sum())


def correlation(joint: Array) -> float:
    """Return the correlation of two friends' bands."""
    steps = np.arange(BANDS) - np.arange(BANDS) @ joint.sum(axis=0)
    return float(steps @ joint @ steps / (steps**2 @ joint.sum(axis=0)))


def read_people(folder: Path) -> tuple[Ints, Ints] | None:
    """Return the bands of targets with their friends, and of all pairs of close friends."""
    checkins, friendships = folder / "checkins_nyc.csv.gz", folder / "friends_nyc.csv.gz"
    if not (checkins.is_file() and friendships.is_file()):
        return None
    latitudes: dict[str, list[float]] = defaultdict(list)
    places: dict[str, set[str]] = defaultdict(set)
    with gzip.open(checkins, "rt", newline="") as file:
        for row in csv.DictReader(file):
            latitudes[row["uid"]].append(float(row["lat"]))
            places[row["uid"]].add(row["vid"])
    band = {who: _to_band(float(np.median(values))) for who, values in latitudes.items()}
    close: dict[str, list[str]] = defaultdict(list)
    pairs = []
    with gzip.open(friendships, "rt", newline="") as file:
        for row in csv.DictReader(file):
            one, two = row["uid"], row["fid"]
            if len(places[one] & places[two]) >= SHARED:
                pairs.append((band[one], band[two]))
                close[one].append(two)
                close[two].append(one)
    targets = [
        [band[who], *(band[friend] for friend in friends[:FRIENDS])]
        for who, friends in close.items()
        if len(friends) >= FRIENDS
    ]
    return np.array(targets), np.array(pairs)


def _to_band(latitude: float) -> int:
    """Return the band of a latitude; what lies beyond the ends belongs to the last one."""
    return int(np.clip((latitude - SOUTH) / (NORTH - SOUTH) * BANDS, 0, BANDS - 1))


def invent_people(circles: int = 300) -> tuple[Ints, Ints]:
    """Return the same from an invented city: circles of friends around a favourite place."""
    rng = np.random.default_rng(3)
    centres = rng.normal(40.738, 0.02, size=(circles, 1))
    homes = centres + rng.normal(0, 0.02, size=(circles, FRIENDS + 1))
    bands = np.array([[_to_band(home) for home in circle] for circle in homes])
    counts = Counter(
        (int(circle[0]), int(circle[other])) for circle in bands for other in range(1, FRIENDS + 1)
    )
    return bands, np.array(list(counts.elements()))
