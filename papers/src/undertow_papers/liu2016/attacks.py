"""Theorem 2 and the attack on check-ins of [liu2016], in the manner of its Figure 5.

The measure of the paper's figure (its Eq. 11) and its choice of users lie outside our fragment.
Here, what an answer gives away is the largest change of the log-odds between two places.
"""

from functools import cache
from pathlib import Path

import numpy as np

from undertow.bounds.dependent import fixed_point_scale, separation_upper
from undertow.numerics import Array
from undertow.testing.enumeration import additive_noise_likelihood, mechanism_leakage
from undertow_papers.charts import Chart, Panel, Trace, merge_equal
from undertow_papers.findings import Claim, Compared, Improved, Listing, Origin, Parts
from undertow_papers.liu2016.checkins import (
    BAND,
    BANDS,
    FRIENDS,
    RANGE,
    Ints,
    attack_errors,
    circle_joint,
    correlation,
    invent_people,
    noises,
    pair_law,
    read_people,
    sum_laws,
)
from undertow_papers.registry import Setting, printed, result

__all__ = ["gowalla", "gowalla_attack", "thm2"]

OUTSIDE = (
    "Our fragment of the paper lacks the measure of Figure 5 (its Eq. 11), the choice of users and "
    "the attack itself; it has the axes, the legend and the statement. Here one of four people "
    "is attacked, who are New Yorkers and not the whole data set: the numbers are not the paper's."
)


@cache
def _real_people(folder: Path) -> tuple[Ints, Ints] | None:
    """Return what `read_people` reads, read once."""
    return read_people(folder)


def _people(setting: Setting) -> tuple[Ints, Array, bool]:
    """Return the targets with their friends, the law of two friends, and whether they are real."""
    path = setting.file("gowalla", "checkins_nyc.csv.gz")
    people = None if path is None else _real_people(path.parent)
    targets, pairs = invent_people() if people is None else people
    return targets, pair_law(pairs), people is not None


def _strangers(joint: Array) -> Array:
    """Return the law of two people with the same places who do not know each other."""
    prior = joint.sum(axis=1) / joint.sum()
    return np.outer(prior, prior)


def _leaks(joint: Array, scale: float) -> float:
    """Return what the noisy sum of four gives away about the first, at most."""
    return separation_upper(*sum_laws(joint), scale)


@result("liu2016", "thm2", "An attacker who takes friends for strangers learns at most epsilon")
def thm2(setting: Setting) -> Parts:
    """Check Theorem 2 with our measure: strangers leak at most epsilon, friends more."""
    _, joint, real = _people(setting)
    strangers = _strangers(joint)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 3.0):
        scale = RANGE / epsilon
        yield Claim(f"without social ties, epsilon {epsilon:g}", _leaks(strangers, scale), epsilon)
        yield Claim(f"with social ties, epsilon {epsilon:g}: more than the guarantee",
                    _leaks(joint, scale), epsilon, relation=">=")  # fmt: skip
    yield OUTSIDE
    yield Origin(real)


@result("liu2016", "data:gowalla-attack", "Attack on check-ins, with and without social ties")
def gowalla_attack(setting: Setting) -> Parts:
    """Attack one person in a noisy sum: errors, and what is given away, by epsilon."""
    targets, joint, real = _people(setting)
    repeats = 40 if setting.quick else 400
    curves, rows = [], []
    for epsilon in printed("liu2016")["fig5"]["epsilons"]:
        scale = RANGE / epsilon
        most, alone, friendly = attack_errors(targets, joint, scale, repeats, setting.seed)
        spread = float(np.std(friendly - alone)) / np.sqrt(len(alone))
        yield Claim(f"ties do not harm the attacker: mean error in km, epsilon {epsilon:g}",
                    float(friendly.mean()), float(alone.mean()), 4 * spread,
                    witness="the law of all pairs is not that of these targets")  # fmt: skip
        yield Claim(f"most given away in {len(alone)} draws, below the exact value, epsilon "
                    f"{epsilon:g}", most, _leaks(joint, scale))  # fmt: skip
        rows.append((f"{epsilon:g}", f"{scale:.2f}", f"{alone.mean():.3f}",
                     f"{friendly.mean():.3f}", f"{_leaks(_strangers(joint), scale):.3f}",
                     f"{_leaks(joint, scale):.3f}"))  # fmt: skip
        for errors, name in ((alone, "w/o"), (friendly, "with")):
            curves.append(_distribution(errors, f"{epsilon:g} {name}"))
    limits = printed("liu2016")["fig5"]
    levels = tuple(float(level) for level in np.linspace(0.1, limits["largest_epsilon"], 30))
    known = tuple(_leaks(joint, RANGE / level) for level in levels)
    unknown = tuple(_leaks(_strangers(joint), RANGE / level) for level in levels)
    yield Claim("with ties above the guarantee, least ratio over all epsilon",
                min(leak / level for leak, level in zip(known, levels, strict=True)), 1.0,
                relation=">=")  # fmt: skip
    panels = (
        Panel("epsilon, w/o or with ties", "inference error (km)", "cumulative distribution",
              merge_equal(curves),
              ylim=(0.0, 1.0)),
        Panel("what is given away", "privacy budget epsilon", "leaked information",
              merge_equal((Trace("with ties", levels, known), Trace("w/o ties", levels, unknown),
                           Trace("guarantee of DP", levels, levels, "bound"))),
              xlim=(0.0, limits["largest_epsilon"]), ylim=(0.0, limits["largest_leak"])),
    )  # fmt: skip
    yield Chart("liu2016-attack", "Attack on check-ins, after Figure 5", panels, OUTSIDE)
    head = ("epsilon", "noise (km)", "error w/o ties", "error with ties", "leaks w/o", "leaks with")
    yield Listing("Attack on check-ins: one person, three unknown friends", head, tuple(rows))
    yield OUTSIDE
    yield f"Correlation of close friends: {correlation(joint):.2f}."
    yield Origin(real)


def _distribution(errors: Array, label: str) -> Trace:
    """Return the cumulative distribution of errors at the possible distances."""
    places = np.arange(BANDS) * BAND
    share = [(errors <= place + 1e-9).mean() for place in places]
    return Trace(label, tuple(places.tolist()), tuple(float(part) for part in share))


@result("liu2016", "data:gowalla", "The perturbation mechanism on check-ins")
def gowalla(setting: Setting) -> Parts:
    """Compare the noise for a sum of four friends: plain, coefficients, baseline, and the least."""
    targets, joint, real = _people(setting)
    circle = circle_joint(joint)
    rows = []
    epsilons = (0.5, 1.0, 2.0) if setting.quick else (0.25, 0.5, 1.0, 2.0, 3.0)
    scales: dict[str, list[float]] = {}
    for epsilon in epsilons:
        scale_by_name = {**noises(joint, epsilon), "exact": _least(circle, epsilon)}
        leaks = {}
        for name, scale in scale_by_name.items():
            scales.setdefault(name, []).append(scale)
            noisy = additive_noise_likelihood(range(BANDS), scale / BAND, FRIENDS + 1)
            own, any_ = (
                mechanism_leakage(circle, noisy, who).leakage for who in ("ignorant", "any")
            )
            leaks[name] = any_
            _, alone, friendly = attack_errors(
                targets, joint, scale, 20 if setting.quick else 200, setting.seed
            )
            rows.append((f"{epsilon:g}", name, f"{scale:.3f}", f"{own:.4f}", f"{any_:.4f}",
                         f"{alone.mean():.3f}", f"{friendly.mean():.3f}"))  # fmt: skip
        yield Claim(f"plain noise leaks more than epsilon {epsilon:g}", leaks["independent"],
                    epsilon, relation=">=")  # fmt: skip
        yield Claim(f"noise of the coefficients, epsilon {epsilon:g}: leakage, any attacker",
                    leaks["dependent"], epsilon, 1e-9,
                    witness="coefficients of pairs do not tell all about four people")  # fmt: skip
        yield Claim(f"noise of the baseline, epsilon {epsilon:g}: leakage, any attacker",
                    leaks["identical"], epsilon, 1e-9)  # fmt: skip
        yield Improved(f"noise at epsilon {epsilon:g}: coefficients against baseline",
                       scale_by_name["dependent"], scale_by_name["identical"])  # fmt: skip
        yield Improved(f"noise at epsilon {epsilon:g}: exact against coefficients",
                       scale_by_name["exact"], scale_by_name["dependent"],
                       cause="the sum of coefficients is attained here")  # fmt: skip
    yield Compared("leakage of the exact noise at the last epsilon", leaks["exact"], epsilons[-1],
                   1e-6, "derived")  # fmt: skip
    lines = merge_equal(
        Trace(name, epsilons, tuple(values), "ours" if name == "exact" else "theirs")
        for name, values in scales.items()
    )
    panel = Panel("a person and three friends", "privacy budget epsilon", "noise scale (km)", lines,
                  scale=("linear", "log"))  # fmt: skip
    yield Chart("liu2016-gowalla", "Noise for a sum over check-ins", (panel,))
    head = ("epsilon", "method", "scale (km)", "leaks, nothing known", "leaks, any known",
            "attack error w/o ties", "with ties")  # fmt: skip
    yield Listing("Check-ins of friends: noise of a sum", head, tuple(rows))
    yield ("The model: one person and three friends, independent of each other given the "
           "person, fitted to pairs of close friends. The mean absolute error of the "
           "sum is the scale.")  # fmt: skip
    yield Origin(real)


def _least(circle: Array, epsilon: float) -> float:
    """Return the least scale in km whose leakage is at most epsilon against every attacker."""

    def leak(scale: float) -> float:
        noisy = additive_noise_likelihood(range(BANDS), scale / BAND, FRIENDS + 1)
        return mechanism_leakage(circle, noisy).leakage

    return fixed_point_scale(leak, epsilon, 2 * RANGE / epsilon, 1e-9)
