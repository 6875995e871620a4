"""Friends give each other away: the attack of Liu, Chakraborty and Mittal (2016) on check-ins.

A city publishes how far north its people are, added up, with noise for differential privacy. The
attacker wants one person. She knows everybody else except this person's closest friends, and takes
the known ones off the sum. Ignoring the friendships she learns what the noise allows, epsilon.
Knowing that friends go to the same places she learns more. Then the same with more noise.

    python examples/friends_attack.py

Reads the Gowalla check-ins of New York from the folder `gowalla` of UNDERTOW_DATA, or of
shared/data beside the checkout, and otherwise invents a city like it. Only averages are printed.
The published fragment does not say how its own attack chose users and places, so the numbers here
are not the paper's; what they show is the same.
"""

import csv
import gzip
import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from undertow.bounds.dependence.coefficients import baseline_scale, fixed_point_scale
from undertow.bounds.dependence.separation import separation_upper

BANDS, SOUTH, NORTH = 6, 40.65, 40.80  # bands of latitude from Brooklyn to Harlem
BAND = (NORTH - SOUTH) / BANDS * 111.2  # kilometres
RANGE = (BANDS - 1) * BAND  # how far one person can move the sum
SHARED = 3  # friends are close if they share so many places
FRIENDS = 3  # of each target, all unknown to the attacker
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[2] / "shared" / "data")


def main(repeats: int = 200) -> None:
    """Attack the noisy sum, with the noise for independent, dependent and identical people."""
    real = read_people(FOLDER / "gowalla")
    targets, pairs = real if real else invent_people()
    print("people:", "Gowalla, New York" if real else "invented", f"({len(targets)} targets)")
    joint = pair_law(pairs)
    print(f"correlation of close friends: {correlation(joint):.2f}")
    for epsilon in (0.5, 1.0, 2.0):
        print(f"\nepsilon {epsilon:g}   noise   leaks   seen    error alone   with friends")
        for name, scale in noises(joint, epsilon).items():
            laws, answers = sum_laws(joint)
            leaks = separation_upper(laws, answers, scale)
            seen, alone, friendly = attack(targets, joint, scale, repeats)
            print(
                f"{name:12}{scale:6.1f} km{leaks:7.3f}{seen:7.3f}"
                f"{alone:12.3f} km{friendly:11.3f} km"
            )


def noises(joint: np.ndarray, epsilon: float) -> dict[str, float]:
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


def sum_laws(joint: np.ndarray, friends: int = FRIENDS) -> tuple[np.ndarray, np.ndarray]:
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
    return laws, np.arange(laws.shape[1]) * BAND


def attack(
    targets: np.ndarray, joint: np.ndarray, scale: float, repeats: int
) -> tuple[float, float, float]:
    """Return the most that an answer gave away, and the mean errors of both attackers.

    Both know the law of a person's place. One takes friends for strangers, one does not. What an
    answer gives away is the largest change of the log-odds between two bands.
    """
    rng = np.random.default_rng(7)
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
        errors.append(float(np.abs(guess - truth).mean() * BAND))
    most = np.log(seen.max(axis=0) / seen.min(axis=0)).max()
    return float(most), errors[0], errors[1]


def pair_law(pairs: np.ndarray) -> np.ndarray:
    """Return the joint law of two close friends: counts both ways, and a little of everything."""
    joint = np.full((BANDS, BANDS), 0.5)
    np.add.at(joint, (pairs[:, 0], pairs[:, 1]), 1.0)
    np.add.at(joint, (pairs[:, 1], pairs[:, 0]), 1.0)
    return joint / joint.sum()


def correlation(joint: np.ndarray) -> float:
    """Return the correlation of two friends' bands."""
    steps = np.arange(BANDS) - np.arange(BANDS) @ joint.sum(axis=0)
    return float(steps @ joint @ steps / (steps**2 @ joint.sum(axis=0)))


def read_people(folder: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the bands of targets with their friends, and of all pairs of close friends."""
    if not (folder / "checkins_nyc.csv.gz").is_file():
        return None
    latitudes: dict[str, list[float]] = defaultdict(list)
    places: dict[str, set[str]] = defaultdict(set)
    with gzip.open(folder / "checkins_nyc.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            latitudes[row["uid"]].append(float(row["lat"]))
            places[row["uid"]].add(row["vid"])
    band = {who: to_band(float(np.median(found))) for who, found in latitudes.items()}
    close: dict[str, list[str]] = defaultdict(list)
    pairs = []
    with gzip.open(folder / "friends_nyc.csv.gz", "rt", newline="") as file:
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


def to_band(latitude: float) -> int:
    """Return the band of a latitude; what lies beyond the ends belongs to the last one."""
    return int(np.clip((latitude - SOUTH) / (NORTH - SOUTH) * BANDS, 0, BANDS - 1))


def invent_people(circles: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return the same from an invented city: circles of friends around a favourite place."""
    rng = np.random.default_rng(3)
    centres = rng.normal(40.738, 0.02, size=(circles, 1))
    homes = centres + rng.normal(0, 0.02, size=(circles, FRIENDS + 1))
    bands = np.array([[to_band(home) for home in circle] for circle in homes])
    counts = Counter(
        (int(circle[0]), int(circle[other])) for circle in bands for other in range(1, FRIENDS + 1)
    )
    return bands, np.array(list(counts.elements()))


if __name__ == "__main__":
    main()
