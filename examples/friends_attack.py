"""Friends give each other away: the attack of Liu, Chakraborty and Mittal (2016) on check-ins.

A city publishes how far north its people are, added up, with noise for differential privacy. The
attacker wants one person. She knows everybody else except this person's closest friends, and takes
the known ones off the sum. Ignoring the friendships she learns what the noise allows, epsilon.
Knowing that friends go to the same places she learns more. Then the same with more noise.

    python examples/friends_attack.py

Reads the Gowalla check-ins of New York from the folder `gowalla` of UNDERTOW_DATA, or of
shared/data beside the checkout, and otherwise invents a city like it. Only averages are printed.
The published fragment does not say how its own attack chose users and places, so the numbers here
are not the paper's; what they show is the same. The steps of the attack are those of
`undertow reproduce liu2016:data:gowalla-attack`.
"""

import os
from pathlib import Path

from undertow.bounds.dependent import separation_upper
from undertow_papers.liu2016.checkins import (
    attack,
    correlation,
    invent_people,
    noises,
    pair_law,
    read_people,
    sum_laws,
)

FOLDER = Path(os.environ.get("UNDERTOW_DATA") or Path(__file__).parents[2] / "shared" / "data")


def main(repeats: int = 200) -> None:
    """Attack the noisy sum, with the noise for independent, dependent and identical people."""
    real = read_people(FOLDER / "gowalla")
    targets, pairs = real if real else invent_people()
    print("people:", "Gowalla, New York" if real else "invented", f"({len(targets)} targets)")
    joint = pair_law(pairs)
    print(f"correlation of close friends: {correlation(joint):.2f}")
    laws, answers = sum_laws(joint)
    for epsilon in (0.5, 1.0, 2.0):
        print(f"\nepsilon {epsilon:g}   noise   leaks   seen    error alone   with friends")
        for name, scale in noises(joint, epsilon).items():
            leaks = separation_upper(laws, answers, scale)
            seen, alone, friendly = attack(targets, joint, scale, repeats)
            print(
                f"{name:12}{scale:6.1f} km{leaks:7.3f}{seen:7.3f}"
                f"{alone:12.3f} km{friendly:11.3f} km"
            )


if __name__ == "__main__":
    main()
