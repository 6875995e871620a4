"""Lemma 1, Corollaries 2 and 3, Proposition 1 and the kernels of Section II of [massny2025]."""

import numpy as np

from undertow import MarkovChain, Redaction
from undertow.bounds.channels.redaction import influence, influences
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Parts, WorstCase
from undertow_papers.massny2025 import formulas as theirs
from undertow_papers.massny2025.cases import (
    ROUNDING,
    chain_of,
    draw_cases,
    leak_of,
    window_of,
)
from undertow_papers.massny2025.formulas import Setup
from undertow_papers.registry import Setting, result

__all__ = ["cor2", "cor3", "lemma1", "prop1", "sec2"]

KEY = "massny2025"
REACH = 8


@result(KEY, "lemma1", "Whatever can be shown leaks at least its influence")
def lemma1(setting: Setting) -> Parts:
    """Try Lemma 1 on random tables of erasure: leakage against influences of what can be shown."""
    count = 60 if setting.quick else 2000
    rng = np.random.default_rng(setting.seed)
    worst = WorstCase()
    for case in draw_cases(setting.seed + 30, count):
        table = rng.choice([0.0, 0.3, 0.7, 1.0, 1.0], size=(case.n, 2))
        table[case.p - 1] = 1.0
        leak = leak_of(case, Redaction(table, case.p - 1))
        for _ in range(5):
            picked = [t for t in range(case.n) if rng.random() < 0.5 and (table[t] < 1).any()]
            values = [int(rng.choice(np.flatnonzero(table[t] < 1))) for t in picked]
            if picked:
                value = influence(chain_of(case), case.p - 1, picked, values)
                worst.offer(value, leak, case.words)
    yield worst.claim("influence of values that can be shown is at most the leakage, closest of "
                      f"{worst.tried}")  # fmt: skip
    yield "Tables with probabilities of erasure 0, 1 and between, by value."


@result(KEY, "cor2", "What a window leaks: the influences of the records at its ends")
def cor2(setting: Setting) -> Parts:
    """Try Corollary 2 and Remark 1: exact leakage of windows beside sums of max-influences."""
    count = 80 if setting.quick else 3000
    rng = np.random.default_rng(setting.seed)
    same, more, loose = 0.0, 0.0, 0.0
    where = ""
    for case in draw_cases(setting.seed + 40, count):
        left, right = int(rng.integers(0, case.p)), int(rng.integers(0, case.n - case.p + 1))
        leak = leak_of(case, window_of(case, left, right))
        total = 0.0
        if left < case.p - 1:
            total += theirs.pointwise(case.alpha, case.beta, left + 1, 1)
        if right < case.n - case.p:
            total += theirs.pointwise(case.alpha, case.beta, right + 1, 1)
        one_sided = left == case.p - 1 or right == case.n - case.p
        if one_sided or not (left + right) % 2 or case.alpha + case.beta <= 1:
            same = max(same, abs(leak - total))
        else:
            more = max(more, leak - total)
            if total - leak > loose:
                loose = total - leak
                where = f"{case.words}, radii {left} and {right}"
    yield Claim(f"even radii or one side: leakage and sum, largest difference over {count} windows",
                same, 0.0, ROUNDING, "==")  # fmt: skip
    yield Claim("odd radii: leakage less the sum, at most 0 (Remark 1)", more, 0.0, ROUNDING)
    yield ("The sum is exact for odd radii too where alpha + beta <= 1, which the paper does not "
           "use.")  # fmt: skip
    yield f"Where alpha + beta > 1 it is not: {loose:.4g} less than the sum leaks at {where}."


@result(KEY, "cor3", "Data-independent redaction leaks the influence of its quilt")
def cor3(setting: Setting) -> Parts:
    """Try Corollary 3 on random probabilities of erasure that do not depend on the values."""
    count = 60 if setting.quick else 2000
    rng = np.random.default_rng(setting.seed)
    below, apart = WorstCase(), 0.0
    for case in draw_cases(setting.seed + 50, count):
        probabilities = rng.choice([0.0, 0.5, 1.0], size=case.n)
        probabilities[case.p - 1] = 1.0
        leak = leak_of(case, Redaction(np.tile(probabilities[:, None], 2), case.p - 1))
        seen = np.flatnonzero(probabilities < 1)
        if not seen.size:
            continue
        some = [int(t) for t in seen if rng.random() < 0.5] or [int(seen[0])]
        value = influence(chain_of(case), case.p - 1, some)
        below.offer(value, leak, case.words)
        quilt = [*seen[seen < case.p - 1][-1:].tolist(), *seen[seen > case.p - 1][:1].tolist()]
        apart = max(apart, abs(leak - influence(chain_of(case), case.p - 1, quilt)))
    yield below.claim("max-influence of shown records is at most the leakage, closest of "
                      f"{below.tried}")  # fmt: skip
    yield Claim("leakage and max-influence of the nearest shown records, largest difference", apart,
                0.0, ROUNDING, "==")  # fmt: skip


@result(KEY, "prop1", "Influences in closed form; convex only for positive correlation")
def prop1(setting: Setting) -> Parts:
    """Try Proposition 1: Eqs. 13 and 14, their order, monotony and convexity in the distance."""
    count = 150 if setting.quick else 5000
    apart, order, rise = 0.0, -np.inf, -np.inf
    bend = {True: (np.inf, ""), False: (np.inf, "")}
    bent = {True: 0, False: 0}
    tried = {True: 0, False: 0}
    for case in draw_cases(setting.seed + 60, count):
        influence_table = influences(MarkovChain(case.transition), 0, REACH + 1)[
            1:
        ]  # (distances, values)
        closed = np.array([
            [theirs.pointwise(case.alpha, case.beta, d, value) for value in (0, 1)]
            for d in range(1, REACH + 1)
        ])  # fmt: skip
        apart = max(apart, float(np.abs(influence_table - closed).max()))
        order = max(order, float((influence_table[:, 0] - influence_table[:, 1]).max()))
        rise = max(rise, float(np.diff(influence_table, axis=0).max()))
        least = float(
            np.diff(influence_table, 2, axis=0).min()
        )  # convex in the distance: never negative
        positive = case.alpha + case.beta <= 1
        tried[positive] += 1
        bent[positive] += least < -ROUNDING
        if least < bend[positive][0]:
            bend[positive] = least, f"alpha = {case.alpha:.6g}, beta = {case.beta:.6g}"
    witness = Setup(0.85, 0.95, REACH + 1, 1, 1.0)
    shape = influences(chain_of(witness), 0, witness.n)[1:]
    yield Claim("influences and Eqs. 13, 14, largest difference", apart, 0.0, ROUNDING, "==")
    yield Claim("influence on 0 less that on 1, largest", order, 0.0, ROUNDING)
    yield Claim("step from one distance to the next, largest (they fall)", rise, 0.0, ROUNDING)
    yield Claim(f"second difference where alpha + beta <= 1, least of {tried[True]} chains",
                bend[True][0], 0.0, ROUNDING, ">=", bend[True][1])  # fmt: skip
    yield Claim(f"second difference where alpha + beta > 1, least of {tried[False]} chains "
                f"({bent[False]} not convex)", bend[False][0], 0.0, ROUNDING, ">=",
                bend[False][1])  # fmt: skip
    yield Claim("second difference of the max-influence at distance 3",
                float(np.diff(shape[:, 1], 2)[1]), 0.0, ROUNDING, ">=",
                "alpha = .85, beta = .95: .., 1.5612, 1.2626, .9039, .. bends downwards; the proof "
                "shows that two different sequences fall and takes them for one")  # fmt: skip
    yield Claim("second difference of the influence on 0 at distance 2",
                float(np.diff(shape[:, 0], 2)[0]), 0.0, ROUNDING, ">=",
                "alpha = .85, beta = .95: 1.8458, 1.4744, 1.0261, .. bends downwards")  # fmt: skip
    x = tuple(float(d) for d in range(1, REACH + 1))
    lines = tuple(
        line
        for value in (0, 1)
        for line in (
            Trace(f"X_t = {value}, ours", x, tuple(shape[:, value].tolist())),
            Trace(
                f"Eq. {13 + value}", x,
                tuple(theirs.pointwise(witness.alpha, witness.beta, int(d), value) for d in x),
                "theirs",
            ),
        )
    )  # fmt: skip
    panel = Panel("alpha = .85, beta = .95", "distance", "pointwise influence", lines,
                  xlim=(1.0, float(REACH)), ylim=(0.0, 3.0))  # fmt: skip
    yield Chart("prop1", "Influences that are not convex", (panel,))
    yield "Theorem 2 rests on the convexity; see thm2 for what becomes of it."


@result(KEY, "sec2", "The chain looks the same backwards: two states only")
def sec2(setting: Setting) -> Parts:
    """Try Section II: transition matrices forwards and backwards of stationary chains."""
    apart = 0.0
    for case in draw_cases(setting.seed + 70, 100):
        chain = MarkovChain(case.transition)
        apart = max(apart, float(np.abs(chain.reverse().transition - chain.transition).max()))
    turning = MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    back = float(np.abs(turning.reverse().transition - turning.transition).max())
    yield Claim("two states: largest difference of an entry", apart, 0.0, ROUNDING, "==")
    yield ("The paper has two states. With three this fails: a chain that turns 0 -> 1 -> 2 -> 0 "
           f"differs from its mirror image by {back:.3g}, and left and right need different "
           "windows, as they have in the library.")  # fmt: skip
