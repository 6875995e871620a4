"""Chapter 7 of lange2024: Markov chains, the bound from the ratio of transition probabilities."""

import itertools
import math

import numpy as np

import undertow as ut
from undertow.bounds.published import lange_constant, ratio_constant, zhao_constant
from undertow.testing.enumeration import chain_joint
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.definitions import largest_ratio
from undertow_papers.findings import Claim, Compared, Improved, Parts
from undertow_papers.lange2024.common import ACTIVITY, KEY, grid, shown_values
from undertow_papers.registry import Setting, result

__all__ = [
    "cor7_4",
    "cor7_5",
    "fig11",
    "fig12",
    "fig13",
    "fig16",
    "lazy",
    "lemma7_1",
    "lemma7_2",
    "thm7_3",
]


def lazy(gamma: float, length: int | None = None) -> ut.MarkovChain:
    """Return the symmetric chain of two states that stays gamma times as often as it moves."""
    move = 1 / (1 + gamma)
    return ut.MarkovChain([[1 - move, move], [move, 1 - move]], length=length)


def _drawn(size: int, generator: np.random.Generator) -> ut.MarkovChain:
    """Return a random chain without zeros."""
    rows = generator.dirichlet(np.full(size, 0.7), size).clip(0.005)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True))


@result(KEY, "lemma7.1", "A record between two others separates them")
def lemma7_1(setting: Setting) -> Parts:
    """Compare Pr[x_i | x_I, x_j] with Pr[x_i | x_I] on whole joint tables, l between i and j."""
    generator = np.random.default_rng(setting.seed)
    apart, records = 0.0, 5
    for size in (2, 3):
        chain = _drawn(size, generator)
        law = chain_joint(chain.initial, chain.transition, records)
        for i, j in itertools.permutations(range(records), 2):
            between = range(min(i, j) + 1, max(i, j))
            rest = [t for t in range(records) if t not in (i, j)]
            for count in range(1, len(rest) + 1):
                for inside in itertools.combinations(rest, count):
                    if not set(inside) & set(between):
                        continue
                    gone = tuple(t for t in rest if t not in inside)
                    some = law.sum(axis=gone, keepdims=True)
                    both = some / some.sum(axis=i, keepdims=True)
                    less = some.sum(axis=j, keepdims=True)
                    alone = less / less.sum(axis=i, keepdims=True)
                    apart = max(apart, float(np.abs(both - alone).max()))
    yield Claim("largest difference of the two probabilities", apart, 0.0, 1e-12)


@result(KEY, "lemma7.2", "Probabilities and their ratios lie between those of one step")
def lemma7_2(setting: Setting) -> Parts:
    """Search random chains for a violation of equations (214), (215) and (216)."""
    generator = np.random.default_rng(setting.seed)
    marginal = columns = rows = -math.inf
    for attempt in range(30 if setting.quick else 1000):
        chain = _drawn(2 + attempt % 4, generator)
        matrix = chain.transition
        ratio = math.log(matrix.max() / matrix.min())
        start = chain.initial
        marginal = max(marginal, float(start.max() - matrix.max()),
                       float(matrix.min() - start.min()))  # fmt: skip
        power = np.eye(chain.size)
        for _ in range(6):
            power = power @ matrix
            logs = np.log(power)
            columns = max(columns, float(np.ptp(logs, axis=0).max()) - ratio)
            rows = max(rows, float(np.ptp(logs, axis=1).max()) - ratio)
    yield Claim("(214): a marginal outside the entries of P, by", marginal, 0.0, 1e-12)
    yield Claim("(215): log-ratio over the starts, beyond ln gamma", columns, 0.0, 1e-12)
    yield Claim("(216): log-ratio over the ends, beyond ln gamma", rows, 0.0, 1e-12)


@result(KEY, "thm7.3", "How far one record moves the law of all unknown ones")
def thm7_3(setting: Setting) -> Parts:
    """Compare 4 ln(max P / min P) with the exact value of what Theorem 7.3 bounds."""
    generator = np.random.default_rng(setting.seed)
    shares = []
    for attempt in range(50 if setting.quick else 3000):
        chain = _drawn(2 + attempt % 4, generator)
        shares.append(ratio_constant(chain) / lange_constant(chain))
    activity = ut.MarkovChain(ACTIVITY)
    steep = lazy(1e6)
    yield Claim("exact / published on random chains, at its largest", max(shares), 1.0)
    yield Improved("activity chain", ratio_constant(activity), lange_constant(activity))
    yield Compared("exact, symmetric chain, gamma = 10", ratio_constant(lazy(10)),
                   2 * math.log(10) + 2 * math.log((10**2 + 1) / (2 * 10)), 1e-9,
                   "derived")  # fmt: skip
    yield Claim("exact / published as gamma grows: no exponent below 4 will do",
                ratio_constant(steep) / lange_constant(steep), 0.95, relation=">=")  # fmt: skip
    yield ("Exact: max over x, x' of [max l_1 - min l_2] + [max r_1 - min r_2], attained by five "
           "records with the outer two known.")  # fmt: skip
    yield ("Section 7.5 looks for less than gamma^4 in equation (256). For symmetric chains "
           "the exact ratio is ((gamma^2 + 1) / 2)^2: the exponent stays, a factor 4 "
           "can go.")  # fmt: skip


@result(KEY, "cor7.4", "The Markov chain bound epsilon + 4 ln gamma")
def cor7_4(setting: Setting) -> Parts:
    """Compare Corollary 7.4 with the exact leakage of all epsilon-DP algorithms."""
    generator = np.random.default_rng(setting.seed)
    worst, limit = 0.0, 1.0
    for attempt, epsilon in itertools.product(range(6 if setting.quick else 60), (0.1, 1.0, 5.0)):
        chain = _drawn(2 + attempt % 2, generator)
        bracket, bound = ut.leakage(ut.PureDP(epsilon), chain), epsilon + lange_constant(chain)
        if bracket.lower / bound > worst / limit:
            worst, limit = bracket.lower, bound
    yield Claim("largest leakage found on random chains", worst, limit)
    activity = ut.MarkovChain(ACTIVITY)
    for epsilon in (0.05, 0.5, 1.0, 4.0, 10.0):
        exact = ut.leakage(ut.PureDP(epsilon), activity).upper
        yield Improved(f"leakage on the activity chain, epsilon {epsilon:g}", exact,
                       epsilon + lange_constant(activity))  # fmt: skip


@result(KEY, "cor7.5", "The ratio of transition probabilities at which Bayesian DP costs h")
def cor7_5(setting: Setting) -> Parts:
    """Recompute equation (285), and the ratio at which the exact leakage costs the factor h."""
    for epsilon, h in itertools.product((1.0, 5.0), (2.0, 10.0)):
        printed = math.exp((h - 1) / (4 * h) * epsilon)
        ratio = largest_ratio(epsilon, h)
        exact = _exact_ratio(epsilon, h, _steps(setting))
        scale = ut.calibrate(ut.Count(1), lazy(exact), epsilon).mechanism.scale
        yield Compared(f"gamma at epsilon {epsilon:g}, h = {h:g}", ratio, printed, 1e-9, "derived")
        yield Claim(f"error of exact noise over plain DP at our gamma, epsilon {epsilon:g}, h = "
                    f"{h:g}", scale * epsilon, h, 1e-4 * h)  # fmt: skip
        yield Improved(f"largest gamma, symmetric chain, epsilon {epsilon:g}, h = {h:g}", exact,
                       printed, larger_is_better=True)  # fmt: skip
    yield "Ours is for the symmetric chain of two states; (285) holds for every chain of its ratio."


def _exact_ratio(epsilon: float, factor: float, steps: int) -> float:
    """Return the gamma of a symmetric chain at which level epsilon / factor leaks epsilon.

    Rounded down: by bisection of ln gamma between 0 and 12, or 12 where more is allowed.
    """
    low, high = 0.0, 12.0
    for _ in range(steps):
        middle = (low + high) / 2
        leaks = ut.leakage(ut.PureDP(epsilon / factor), lazy(math.exp(middle))).upper
        low, high = (middle, high) if leaks <= epsilon else (low, middle)
    return math.exp(low)


def _steps(setting: Setting) -> int:
    """Return the steps of a bisection: good to 5 percent of gamma if quick, else to 1e-6."""
    return 8 if setting.quick else 24


@result(KEY, "fig11", "Where the Markov chain bound is below that of Zhao")
def fig11(setting: Setting) -> Parts:
    """Recompute the border gamma = omega^(3/2) of equation (282), and both against the truth."""
    given = shown_values("fig11")
    for omega, gamma, error in zip(
        given["omega"], given["largest_gamma"], given["reading_error"], strict=True
    ):
        yield Compared(f"largest gamma at omega = {omega:g}", omega**1.5, gamma, error)
    generator = np.random.default_rng(setting.seed)
    chains = [_drawn(2 + attempt % 3, generator) for attempt in range(200)]
    worst = max(ratio_constant(chain) - min(lange_constant(chain), 2 / 3 * zhao_constant(chain))
                for chain in chains)  # fmt: skip
    yield Claim("exact constant less min(4 ln gamma, 4 ln omega)", worst, 0.0)
    pairs = [(math.exp(zhao_constant(c) / 6), math.exp(lange_constant(c) / 4)) for c in chains]
    yield Claim("omega / gamma, at its largest", max(a / b for a, b in pairs), 1.0)
    x = tuple(float(v) for v in np.logspace(0, 2, 100))
    lines = (
        Trace("gamma = omega^(3/2)", x, tuple(w**1.5 for w in x), "theirs"),
        Trace("gamma = omega (least)", x, x, "bound"),
        Trace("random chains", *_columns(pairs), "points"),
        Trace("printed", tuple(given["omega"]), tuple(given["largest_gamma"]), "points"),
    )
    panel = Panel("", "omega", "gamma", lines, ("log", "log"), (1.0, 100.0), (1.0, 1000.0))
    note = "Below the curve 4 ln gamma is smaller. The exact constant is below 4 ln omega always."
    yield Chart("fig11", "Two published bounds", (panel,), note)
    yield note


def _columns(pairs: list[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the pairs within the axes of Figure 11 as two columns."""
    inside = [(a, b) for a, b in pairs if a <= 100 and b <= 1000]
    return tuple(a for a, _ in inside), tuple(b for _, b in inside)


@result(KEY, "fig12", "Two chains, each favouring another bound")
def fig12(setting: Setting) -> Parts:
    """Recompute gamma and omega of the two chains of Figure 12, and what they really leak."""
    given = shown_values("fig12")
    matrices = ([[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]])
    for side, matrix, gamma, omega in zip(
        ("left", "right"), matrices, given["gamma"], given["omega"], strict=True
    ):
        chain = ut.MarkovChain(matrix)
        lange, zhao = lange_constant(chain), zhao_constant(chain)
        exact = ut.leakage(ut.PureDP(1.0), chain).upper
        yield Compared(f"gamma, {side}", math.exp(lange / 4), gamma, 1e-9)
        yield Compared(f"omega, {side}", math.exp(zhao / 6), omega, 1e-9)
        yield Claim(f"the favoured bound less the other, {side}",
                    zhao - lange if side == "left" else lange - zhao, 0.0)  # fmt: skip
        yield Improved(f"leakage at epsilon 1, {side}", exact, 1 + min(lange, zhao))
    yield "The matrices are chosen to have the printed gamma and omega; the drawing is not in text."


@result(KEY, "fig13", "Where the Markov chain bound is below the general one")
def fig13(setting: Setting) -> Parts:
    """Recompute the border gamma = exp((n - 1) epsilon / 4) of equation (284)."""
    given = shown_values("fig13")
    for improves, cases in ((True, given["improves"]), (False, given["does_not"])):
        for epsilon, n, gamma in cases:
            bound, where = epsilon + 4 * math.log(gamma), f"epsilon {epsilon:g}, n = {n}"
            exact = ut.leakage(ut.PureDP(epsilon), lazy(gamma, n)).upper
            yield Claim(f"chain bound against the general one, {where}, gamma {gamma:g}", bound,
                        n * epsilon, relation="<=" if improves else ">=")  # fmt: skip
            yield Improved(f"symmetric chain, {where}, gamma {gamma:g}", exact,
                           min(n * epsilon, bound))  # fmt: skip
    x = grid(1.0, 100.0, 200)
    lines = tuple(
        Trace(f"epsilon = {epsilon:g}", x,
             tuple(min(math.exp((n - 1) * epsilon / 4), 1e6) for n in x), "theirs")
        for epsilon in (0.5, 1.0, 2.0)
    )  # fmt: skip
    panel = Panel("", "n", "gamma", lines, ("linear", "log"), (0.0, 100.0), (1.0, 1e4))
    caption = "Below its line the chain bound is the smaller one; the exact leakage is below both."
    yield "The text names epsilon 0.5 only; 1 and 2 are those of the simulations in section 7.3."
    yield Chart("fig13", "Chain or general bound", (panel,), caption)


@result(KEY, "fig16", "Ratios at which Bayesian DP costs at most a factor h")
def fig16(setting: Setting) -> Parts:
    """Recompute gamma = exp((h - 1) epsilon / (4 h)), beside that of exact noise."""
    given = shown_values("fig16")
    x = grid(1.01, 10.0, 100)
    places = (3.0, 10.0) if setting.quick else grid(1.25, 10.0, 15)
    yield Compared("gamma at epsilon 5, h = 10, printed with one digit",
                   largest_ratio(given["epsilon"], 10.0), given["gamma"], 0.5)  # fmt: skip
    panels = []
    for epsilon in (1.0, 5.0, 10.0):
        exact = tuple(_exact_ratio(epsilon, h, _steps(setting)) for h in places)
        theirs = tuple(largest_ratio(epsilon, h) for h in x)
        lines = (
            Trace("Corollary 7.5", x, theirs, "theirs"),
            Trace("exact, symmetric chain", places, exact),
        )
        yield Improved(f"gamma at h = 10, epsilon {epsilon:g}", exact[-1],
                       largest_ratio(epsilon, 10.0), larger_is_better=True)  # fmt: skip
        panels.append(Panel(f"epsilon = {epsilon:g}", "h", "gamma", lines,
                            ("linear", "log"), (1.0, 10.0), (1.0, 100.0)))  # fmt: skip
    yield "The text says smaller than 3; the formula gives 3.08 at h = 10, and 3.49 as h grows."
    yield "The text names epsilon 5 only; 1 and 10 are ours."
    yield Chart("fig16", "The price of dependence", tuple(panels), "Error at most h times DP's.")
