"""The oracle: leakage by enumerating every record, adversary and output, for small laws.

Plain brute force on the joint table of the records, shape (k,) * n, sharing no code with the
algorithms that it checks. Used by tests and by the recomputed papers. Results are right to about
1e-13, rounded to neither side: enough for an oracle, not for a guarantee.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations, permutations, product
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_array

from undertow.errors import InvalidInput, UndertowError
from undertow.models.lowered import LoweredLaw

FloatArray: TypeAlias = npt.NDArray[np.float64]
Against: TypeAlias = Literal["any", "ignorant", "informed"] | tuple[int, tuple[int, ...]]

TABLE_LIMIT = 2**25  # entries of the largest table, records and outputs together: 256 MiB
PROGRAM_LIMIT = 2**13  # unknowns of the largest linear program: minutes on one core
LOG_RANGE = 700.0  # largest |s - F| / scale whose density is a normal float (below 708)
SUM_TOLERANCE = 1e-9  # how far probabilities may sum from 1; no leakage depends on it
SOLVER_TOLERANCE = 1e-10  # the least that HiGHS accepts; its default moves leakages by 1e-5
SOLVER_OPTIONS = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
EQUALITY_WEIGHT = 1e6  # scales the normalisation: HiGHS drops coefficients below 1e-9
TIGHT = 1e-9  # a limit that is this close is tight, and one exceeded by more is broken
SOLVERS = ("highs", "highs-ipm")  # the second is asked where the first leaves a gap
CERTIFIED_GAP = 1e-9  # largest distance from a likelihood to the dual bound, relative above 1


@dataclass(frozen=True, slots=True)
class LargestLeak:
    """The largest leakage found and where: adversary, the two values of the target, the output.

    `known` pairs each known record with its value, `value` and `other` are x and x' (the
    numerator's and the denominator's value of the target), and `output` indexes the last axis of
    the likelihood (None from a linear program, whose output is a likelihood and not an index).
    For a window of records `target` is its first record, and x and x' are histories. If no target
    has two possible values, `leakage` is 0 and nothing else is set.
    """

    leakage: float
    target: int | None = None
    known: tuple[tuple[int, int], ...] = ()
    value: int | tuple[int, ...] | None = None
    other: int | tuple[int, ...] | None = None
    output: int | None = None


class AdversaryCase(NamedTuple):
    """One adversary with what it knows, and the ordered pairs (x, x') of possible target values."""

    target: int
    known: tuple[int, ...]
    values: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


class Pattern(NamedTuple):
    """One adversary with the values that it knows, and two values of what it wants.

    `secret` lists the records that are wanted (one, or a window), `value` and `other` their
    values in the numerator and in the denominator.
    """

    secret: tuple[int, ...]
    known: tuple[int, ...]
    values: tuple[int, ...]
    value: tuple[int, ...]
    other: tuple[int, ...]


def chain_joint(
    start: npt.ArrayLike, transitions: npt.ArrayLike, length: int | None = None
) -> FloatArray:
    """Return the joint table of a Markov chain, shape (k,) * n.

    joint[x_0, ..., x_{n-1}] = start[x_0] * prod_t transitions[t][x_t, x_{t+1}], where
    `transitions` is a stack of n - 1 matrices (row = from), or one matrix together with `length`,
    the number n of records. Cost k^n.

    >>> chain_joint([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length=2)
    array([[0.45, 0.05],
           [0.1 , 0.4 ]])
    """
    joint, steps = np.asarray(start, dtype=np.float64), np.asarray(transitions, dtype=np.float64)
    k = joint.size
    if joint.ndim != 1 or steps.ndim not in (2, 3) or steps.shape[-2:] != (k, k):
        raise InvalidInput(
            "shapes must be (k,) and (k, k) or (n - 1, k, k); found "
            f"{joint.shape} and {steps.shape}"
        )
    if steps.ndim == 3 and length not in (None, len(steps) + 1):
        raise InvalidInput(f"{len(steps)} matrices make {len(steps) + 1} records, not {length}")
    if steps.ndim == 2:
        if length is None or length < 1:
            raise InvalidInput(f"one transition matrix needs length >= 1; found {length}")
        steps = np.broadcast_to(steps, (length - 1, k, k))
    _refuse_large(k ** (len(steps) + 1), f"{k}^{len(steps) + 1} joint probabilities")
    for step in steps:
        joint = joint[..., None] * step  # one axis more, for the next record
    return _law(joint)


def hidden_joint(
    start: npt.ArrayLike,
    transitions: npt.ArrayLike,
    symbols: Sequence[int],
    length: int | None = None,
) -> FloatArray:
    """Return the joint table of the symbols of a hidden Markov chain, shape (k,) * n.

    `start` is the law of the first hidden state, `transitions` a stack of n - 1 matrices (row =
    from) or one matrix together with `length`, and `symbols[s]` is the record in hidden state s.
    Chains of order m are the case whose hidden states are the last m records. Cost k^n M^2.

    >>> hidden_joint([0.25, 0.25, 0.5], np.full((3, 3), 1 / 3), symbols=[0, 0, 1], length=1)
    array([0.5, 0.5])
    """
    law, steps = np.asarray(start, dtype=np.float64), np.asarray(transitions, dtype=np.float64)
    states = law.size
    if law.ndim != 1 or steps.ndim not in (2, 3) or steps.shape[-2:] != (states, states):
        raise InvalidInput(
            f"shapes must be (M,) and (M, M) or (n - 1, M, M); found {law.shape} and {steps.shape}"
        )
    if len(symbols) != states or min(symbols) < 0:
        raise InvalidInput(f"one symbol 0, 1, .. is needed for each of {states} hidden states")
    if steps.ndim == 2:
        if length is None or length < 1:
            raise InvalidInput(f"one transition matrix needs length >= 1; found {length}")
        steps = np.broadcast_to(steps, (length - 1, states, states))
    k = max(symbols) + 1
    _refuse_large(k ** (len(steps) + 1) * states, f"{k}^{len(steps) + 1} times {states} numbers")
    shows = np.eye(k)[list(symbols)]  # (hidden state, symbol)
    table = shows.T * law  # (x_0, hidden state)
    for step in steps:
        table = np.einsum("...s,st,tx->...xt", table, step, shows)
    return _law(table.sum(axis=-1))


def additive_noise_likelihood(weights: npt.ArrayLike, scale: float, n: int) -> FloatArray:
    """Return the likelihood of a noisy sum, F + Laplace(scale), shape (k,) * n + (outputs,).

    F(x) = sum_t weights[x_t] with integer weights of shape (k,), or sum_t weights[t, x_t] with
    shape (n, k). Output j is s = min F + j, and its entry is exp(-|s - F| / scale): the density up
    to a factor that cancels from every leakage.

    The integers from min F to max F suffice. Between two neighbouring integers both conditional
    densities have the form A e^(s/scale) + B e^(-s/scale), so their ratio is a Moebius function of
    e^(2 s/scale), monotone, largest at an end; below min F and above max F the ratio is constant.
    Discrete Laplace noise with ratio e^(-1/scale) has the same likelihood at the integers, and
    beyond the ends the same ratios: one table serves both.

    >>> additive_noise_likelihood([0, 1], scale=1.0, n=1).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    table = np.asarray(weights, dtype=np.float64)
    if n < 1 or not table.size or table.ndim > 2 or table.shape[:-1] not in ((), (n,)):
        raise InvalidInput(f"weights must have shape (k,) or (n = {n}, k); found {table.shape}")
    if not np.all(np.isfinite(table)) or not np.array_equal(table, np.rint(table)):
        raise InvalidInput("weights must be integers; found a fraction, inf or nan")
    if not (scale > 0 and math.isfinite(scale)):
        raise InvalidInput(f"scale must be positive and finite; found {scale}")
    rows = np.broadcast_to(table, (n, table.shape[-1]))
    low, high = rows.min(axis=1).sum(), rows.max(axis=1).sum()
    if high - low > LOG_RANGE * scale:
        raise InvalidInput(
            f"(max F - min F) / scale must be at most {LOG_RANGE}; found {(high - low) / scale:g}, "
            "where densities underflow; raise scale or shorten the series"
        )
    k, count = rows.shape[1], int(high - low) + 1
    _refuse_large(k**n * count, f"{k}^{n} data sets times {count} outputs")
    total = reduce(np.add.outer, rows[1:], rows[0])  # (k,) * n
    likelihood: FloatArray = np.exp(-np.abs(low + np.arange(count) - total[..., None]) / scale)
    return likelihood


def product_channel_likelihood(channels: npt.ArrayLike) -> FloatArray:
    """Return the likelihood of records reported one by one, shape (k,) * n + (m^n,).

    channels[t][x, z] is the probability that record t with state x is reported as z, each record
    independently; output j is the index of (z_0, ..., z_{n-1}) in C order (np.unravel_index).
    Cost (k m)^n.

    >>> flips = product_channel_likelihood([[[0.9, 0.1], [0.1, 0.9]]] * 2)
    >>> flips.shape, round(float(flips[0, 1, 0b01]), 12)
    ((2, 2, 4), 0.81)
    """
    tables = np.asarray(channels, dtype=np.float64)
    if tables.ndim != 3 or not tables.size:
        raise InvalidInput(f"channels must have shape (n, k, m); found {tables.shape}")
    if not np.all(tables >= 0) or not np.all(np.abs(tables.sum(axis=2) - 1) <= SUM_TOLERANCE):
        raise InvalidInput("rows of channels must be non-negative and sum to 1")
    n, k, m = tables.shape
    _refuse_large((k * m) ** n, f"{k}^{n} data sets times {m}^{n} outputs")
    joined: FloatArray = reduce(np.multiply.outer, tables[1:], tables[0])  # (k, m) * n
    order = (*range(0, 2 * n, 2), *range(1, 2 * n, 2))
    return joined.transpose(order).reshape((k,) * n + (m**n,))


def independent_releases(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """Return the likelihood of two releases of the same records, independent given the records.

    Pr[(s, s') | x] = Pr[s | x] Pr[s' | x]; output j is the pair divmod(j, outputs of second).

    >>> once = additive_noise_likelihood([0, 1], scale=1.0, n=1)
    >>> independent_releases(once, once).shape
    (2, 4)
    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim < 2 or one.shape[:-1] != two.shape[:-1]:
        raise InvalidInput(f"both releases must be of the same records; {one.shape}, {two.shape}")
    _refuse_large(one.size * two.shape[-1], "the outputs of both releases together")
    both: FloatArray = one[..., :, None] * two[..., None, :]
    return both.reshape((*one.shape[:-1], -1))


def adversaries(joint: npt.ArrayLike, against: Against = "any") -> Iterator[AdversaryCase]:
    """Yield every adversary (target, known records, their values) that leaves the target open.

    `against` is "any" (all known sets), "ignorant" (nothing known), "informed" (all others known)
    or a pair (target, known records). A case has Pr(x_K, x) > 0 for at least two x. There are at
    most n (k + 1)^(n - 1) cases.

    >>> for case in adversaries([[0.5, 0.0], [0.25, 0.25]]):
    ...     print(case.target, case.known, case.values, case.pairs)
    0 () () ((0, 1), (1, 0))
    0 (1,) (0,) ((0, 1), (1, 0))
    1 () () ((0, 1), (1, 0))
    1 (0,) (1,) ((0, 1), (1, 0))
    """
    law = _law(joint)
    n, k = law.ndim, law.shape[0]
    for (target,), known in _secret_sets(n, against):
        order = (target, *known, *_unknown(n, (target,), known))
        prior = law.transpose(order).reshape((k,) * (1 + len(known)) + (-1,)).sum(axis=-1)
        for values in product(range(k), repeat=len(known)):
            pairs = tuple(permutations((x for x in range(k) if prior[(x, *values)] > 0), 2))
            if pairs:
                yield AdversaryCase(target, known, values, pairs)


def mechanism_leakage(
    joint: npt.ArrayLike, likelihood: npt.ArrayLike, against: Against = "any", window: int = 1
) -> LargestLeak:
    """Return the leakage of one mechanism and the case that attains it.

    likelihood[x_0, ..., x_{n-1}, s] is Pr[s | x], up to a factor that may depend on s alone. The
    leakage is the largest

        ln Pr[s | x_K, x_i = x] / Pr[s | x_K, x_i = x']

    over outputs s, adversaries (a target i, or the first record of a `window`, and known records
    K), and values x_K, x != x' with Pr(x_K, x) > 0 and Pr(x_K, x') > 0. A positive numerator over
    a zero denominator leaks inf; 0/0 is skipped; if no target has two possible values the leakage
    is 0. Cost n 2^(n-1) sums over the whole table.

    Two records that always agree, counted with noise of scale 1, leak 2 to whoever knows neither:

    >>> twins = [[0.5, 0.0], [0.0, 0.5]]
    >>> count = additive_noise_likelihood([0, 1], scale=1.0, n=2)
    >>> worst = mechanism_leakage(twins, count)
    >>> round(worst.leakage, 12), worst.target, worst.known
    (2.0, 0, ())
    """
    law, table = _law(joint), np.asarray(likelihood, dtype=np.float64)
    n, k = law.ndim, law.shape[0]
    if table.shape[:-1] != law.shape or not table.size:
        raise InvalidInput(f"likelihood must have shape {law.shape} + (m,); found {table.shape}")
    if not np.all((table >= 0) & np.isfinite(table)):
        raise InvalidInput("likelihood must be finite and non-negative")
    _refuse_large(table.size, "the likelihood of every data set and output")
    weighted = law[..., None] * table
    if np.any((weighted == 0) & (law > 0)[..., None] & (table > 0)):
        raise InvalidInput("joint times likelihood underflows to 0; raise the noise or shorten n")
    histories = list(product(range(k), repeat=window))
    worst = LargestLeak(-math.inf)
    for secret, known in _secret_sets(n, against, window):
        order = (*secret, *known, *_unknown(n, secret, known))
        shape = (len(histories), k ** len(known), -1)
        prior = law.transpose(order).reshape(shape).sum(axis=2)  # (history, values known)
        # (history, values known, output)
        evidence = weighted.transpose((*order, n)).reshape((*shape, table.shape[-1])).sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):  # nan: impossible, or 0/0
            score = np.log(evidence) - np.where(prior > 0, np.log(prior), math.nan)[..., None]
            losses = {(x, y): score[x] - score[y] for x, y in permutations(range(len(score)), 2)}
        for pair, loss in losses.items():
            loss[np.isnan(loss)] = -math.inf
            row, output = np.unravel_index(int(np.argmax(loss)), loss.shape)
            if loss[row, output] > worst.leakage:
                values = np.unravel_index(int(row), (k,) * len(known))
                facts = tuple((record, int(v)) for record, v in zip(known, values, strict=True))
                lived = [histories[index] for index in pair]
                x, other = (v[0] if window == 1 else v for v in lived)
                worst = LargestLeak(
                    float(loss[row, output]), secret[0], facts, x, other, int(output)
                )
    return worst if worst.target is not None else LargestLeak(0.0)


def likelihood_program(
    joint: npt.ArrayLike,
    limits: npt.ArrayLike,
    case: Pattern,
) -> float:
    """Return the largest log-ratio of two values over all likelihoods within limits.

    A likelihood phi > 0 on all data sets is within the limits if phi(y) <= e^theta_t(v, v') phi(y')
    whenever y and y' differ in record t alone, y_t = v and y'_t = v'. `limits` is theta: one number
    (an epsilon-DP algorithm), a table (k, k), or a table for each record, (n, k, k); paths through
    other values are taken where they are shorter. With the known records fixed (phi may ignore
    them) this is a linear program in the values of phi on the secret and the unknown records:
    maximise E[phi | x_K, x] subject to E[phi | x_K, x'] = 1.

    Impossible data sets stay in the program. A state that record t never takes could be dropped,
    because any two of t's states are neighbours; but impossible *combinations* could not: if two
    records always agree, 00 and 11 are linked only through 01 and 10, without which phi(11)/phi(00)
    would be unbounded instead of at most e^(2 epsilon).

    The solution is moved into the cone, phi(y) <- min over y' of e^(d(y, y')) phi(y') with
    d(y, y') = sum_t theta_t(y_t, y'_t), and evaluated there, so a likelihood within the limits
    attains the value returned. The dual solution bounds the optimum from above, what it lacks
    charged at the most that phi(y) can be, 1 / E[e^(-d(y, Y)) | x_K, x']; a gap is an error.

    >>> twins = [[0.5, 0.0], [0.0, 0.5]]
    >>> round(likelihood_program(twins, 0.5, Pattern((0,), (), (), (1,), (0,))), 9)
    1.0
    """
    return ratio_program(*_conditional(joint, limits, case))


def ratio_program(top: FloatArray, bottom: FloatArray, theta: FloatArray) -> float:
    """Return the largest ln of (top phi) / (bottom phi) over all likelihoods within limits.

    `top` and `bottom` are masses on the values of r records, shape (k,) * r, and `theta` (r, k, k)
    the closed limits of each record (`record_limits`). One linear program with k^r unknowns; the
    value is attained, and within CERTIFIED_GAP of the dual bound.

    >>> theta = record_limits([[0.0, 2.0], [0.5, 0.0]], records=1, states=2)
    >>> round(ratio_program(np.array([1.0, 0.0]), np.array([0.0, 1.0]), theta), 9)
    2.0
    """
    if top.size > PROGRAM_LIMIT:
        raise InvalidInput(
            f"the linear program has {len(top)}^{top.ndim} unknowns; at most {PROGRAM_LIMIT} are "
            "solved; take fewer records or let the adversary know more of them"
        )
    floor = bottom
    for axis, table in enumerate(theta):  # the least E[phi | x_K, x'] of a phi with phi(y) = 1
        floor = np.moveaxis(np.tensordot(np.exp(-table), floor, (1, axis)), 0, axis)
    # solved for phi(y) floor(y), which is at most 1: tolerances of the solver are absolute
    gain, cost = (top / floor).ravel(), (bottom / floor).ravel()
    cone = _cone(theta.shape, theta.tobytes(), floor.tobytes())
    solve: Callable[..., Any] = linprog  # its stubs do not know sparse constraints
    attained, bound = -math.inf, math.inf
    for method in SOLVERS:
        solution = solve(
            -gain / gain.max(),
            A_ub=cone,
            b_ub=np.zeros(cone.shape[0]),
            A_eq=EQUALITY_WEIGHT * cost.reshape(1, -1),
            b_eq=[EQUALITY_WEIGHT],
            method=method,
            options=dict.fromkeys(SOLVER_OPTIONS, SOLVER_TOLERANCE),
        )
        if solution.status != 0:
            raise UndertowError(f"the linear program was not solved: {solution.message}")
        phi = np.maximum(solution.x, 0.0).reshape(top.shape) / floor
        for axis, table in enumerate(theta):
            # into the cone, one record after the other: the smallest of e^theta(v, v') phi(v')
            raised = np.exp(table) * np.moveaxis(phi, axis, -1)[..., None, :]
            phi = np.moveaxis(raised.min(axis=-1), -1, axis)
        evidence = float((top * phi).sum()), float((bottom * phi).sum())
        if min(evidence) > 0:  # not where the solver's tolerance is larger than phi
            attained = max(attained, math.log(evidence[0]) - math.log(evidence[1]))
        rate = -EQUALITY_WEIGHT * float(solution.eqlin.marginals[0]) * gain.max()
        # what the dual lacks, charged at the most that phi floor can be
        prices = np.minimum(solution.ineqlin.marginals, 0.0) * gain.max()
        lack = np.maximum(gain - rate * cost + cone.T @ prices, 0.0)
        bound = min(bound, math.log(rate + float(lack.sum())))
        if bound - attained <= CERTIFIED_GAP * max(1.0, bound):
            return attained
    raise UndertowError(
        f"the linear program was solved only to within {bound - attained:.3g}; "
        f"{CERTIFIED_GAP:g} is required; lower the limits or take fewer records"
    )


def law_tables(
    law: LoweredLaw,
    case: Pattern,
    records: int,
    phase: int = 0,
    seen: Mapping[int, npt.ArrayLike] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the laws of secret and open records of a long series, given either history.

    The series has `records` records, the first at `phase` of the cycle of kernels, where the hidden
    state has the law that `start` at phase 0 leads to. `seen` has a factor (k,) for some of the
    unknown records: they are summed out, weighed by it, and only the other unknown records are
    open. The tables have an axis for each secret and then for each open record; both are in
    proportion to Pr[. | x_K, x] and Pr[. | x_K, x'], with the same factor. Known and seen records
    cost nothing but time, so that series may be long: cost records k^open M^2.

    >>> law = LoweredLaw(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.arange(2), np.full(2, 0.5))
    >>> top, bottom = law_tables(law, Pattern((1,), (0,), (1,), (1,), (0,)), 3)
    >>> top.round(3).tolist(), bottom.round(3).tolist()
    ([[0.0, 0.0], [0.1, 0.9]], [[0.9, 0.1], [0.0, 0.0]])
    """
    factors = dict(seen or {})
    _check_records(records, (*case.secret, *case.known))
    k, kernels = int(max(law.symbols)) + 1, np.asarray(law.kernels, dtype=np.float64)
    symbols, start = np.asarray(law.symbols), np.asarray(law.start, dtype=np.float64)
    for step in kernels[: phase % len(kernels)]:
        start = start @ step
    unknown = _unknown(records, case.secret, case.known)
    if not set(factors) <= set(unknown):
        raise InvalidInput("records that are seen must be neither secret nor known")
    opened = [t for t in unknown if t not in factors]
    _refuse_large(k ** len(opened) * start.size, f"{k}^{len(opened)} values of open records")

    def masses(history: tuple[int, ...], plain: bool) -> tuple[FloatArray, float]:
        """Return masses by values of the open records (`plain`: their sum), and ln of the scale."""
        fixed = dict(zip((*case.known, *case.secret), (*case.values, *history), strict=True))
        message, logs = start, 0.0
        for t in range(records):
            if t:
                message = message @ kernels[(phase + t - 1) % len(kernels)]
            if t in fixed:
                message = message * (symbols == fixed[t])
            elif t in factors and not plain:
                message = message * np.asarray(factors[t], dtype=np.float64)[symbols]
            elif t not in factors and not plain:
                message = message[..., None, :] * (symbols == np.arange(k)[:, None])
            largest = float(message.max())
            if not largest > 0:
                raise InvalidInput("x and other must both be possible given the known values")
            message, logs = message / largest, logs + math.log(largest)
        return message.sum(axis=-1), logs

    tables, scales = [], []
    for history in (case.value, case.other):
        (table, above), (mass, below) = masses(history, False), masses(history, True)
        tables.append(table / float(mass))
        scales.append(above - below)
    size = (k,) * (len(case.secret) + len(opened))
    top, bottom = np.zeros((2, *size))
    top[case.value] = tables[0] * math.exp(scales[0] - max(scales))
    bottom[case.other] = tables[1] * math.exp(scales[1] - max(scales))
    return top, bottom


def law_program(
    law: LoweredLaw,
    limits: npt.ArrayLike,
    case: Pattern,
    records: int,
    phase: int = 0,
    seen: Mapping[int, npt.ArrayLike] | None = None,
) -> float:
    """Return the largest log-ratio of two histories over all likelihoods, for a lowered law.

    `likelihood_program` without the joint table: any start phase, any number of records as long as
    few are unknown. With `seen` it is the largest over the likelihoods that have these factors at
    these records, if they are within limits a lower end of the largest over all.

    >>> law = LoweredLaw(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.arange(2), np.full(2, 0.5))
    >>> case = Pattern((2,), (0, 4), (1, 1), (1,), (0,))
    >>> joint = hidden_joint(law.start, law.kernels[0], [0, 1], 5)
    >>> abs(law_program(law, 0.7, case, 5) - likelihood_program(joint, 0.7, case)) < 1e-9
    True
    """
    top, bottom = law_tables(law, case, records, phase, seen)
    return ratio_program(top, bottom, record_limits(limits, top.ndim, top.shape[0]))


def product_attack(
    joint: npt.ArrayLike, limits: npt.ArrayLike, case: Pattern
) -> tuple[float, dict[int, FloatArray]]:
    """Return the best log-ratio of a likelihood that is a product, and its factor by record.

    With all other factors fixed the ratio is linear-fractional in one factor, so that extreme rays
    of each record's limits suffice; every combination of them is tried. A lower end of
    `likelihood_program`, and equal to it where theory says that the worst likelihood is a product.

    >>> twins = [[0.5, 0.0], [0.0, 0.5]]
    >>> value, factors = product_attack(twins, 0.5, Pattern((0,), (), (), (1,), (0,)))
    >>> round(value, 9), (factors[0] / factors[0].min()).round(3)
    (1.0, array([1.   , 1.649]))
    """
    top, bottom, theta = _conditional(joint, limits, case)
    rays = [extreme_factors(table) for table in theta]
    _refuse_large(math.prod(map(len, rays)) * len(top), "the products of all extreme factors")
    for each in rays:  # each step sums out the first record and appends its choice of a ray
        top, bottom = (np.tensordot(table, each, (0, 1)) for table in (top, bottom))
    ratios = np.log(top) - np.log(bottom)
    best = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
    records = (*case.secret, *_unknown(np.asarray(joint).ndim, case.secret, case.known))
    factors = {t: each[i] for t, each, i in zip(records, rays, best, strict=True)}
    return float(ratios[best]), factors


def extreme_factors(limits: npt.ArrayLike) -> FloatArray:
    """Return the extreme rays of {g > 0: g(v) <= e^theta(v, v') g(v')}, one a row, shape (rays, k).

    At an extreme ray k - 1 limits are tight along a tree that spans the values. Every tree, with
    every limit tight in either direction, is tried; cost k^(k - 2) 2^(k - 1).

    >>> extreme_factors([[0.0, 1.0], [2.0, 0.0]]).round(3)
    array([[1.   , 0.368],
           [1.   , 7.389]])
    """
    theta = np.asarray(limits, dtype=np.float64)
    k = len(theta)
    rays = [] if k > 1 else [np.zeros(1)]
    for edges in combinations(list(combinations(range(k), 2)), k - 1):
        for forward in product((True, False), repeat=k - 1):
            logs = {0: 0.0}
            for _ in edges:  # as many rounds as edges reach every value of a tree
                for (v, w), up in zip(edges, forward, strict=True):
                    apart = theta[v, w] if up else -theta[w, v]  # ln g(v) - ln g(w)
                    if v in logs and w not in logs:
                        logs[w] = logs[v] - apart
                    elif w in logs and v not in logs:
                        logs[v] = logs[w] + apart
            if len(logs) == k:
                rays.append(np.array([logs[v] for v in range(k)]))
    table = np.array(rays)
    within = (table[:, :, None] - table[:, None, :] <= theta + TIGHT).all(axis=(1, 2))
    return np.exp(np.unique(table[within].round(12), axis=0))


def patterns(joint: npt.ArrayLike, against: Against = "any", window: int = 1) -> Iterator[Pattern]:
    """Yield every case of `adversaries` with one ordered pair of values, or of histories.

    The secret is the record `target`, or with a `window` of w records the whole history of the
    records target, ..., target + w - 1, of which nobody knows any.

    >>> len(list(patterns(np.full((2, 2, 2), 1 / 8), window=2)))
    72
    """
    law = _law(joint)
    n, k = law.ndim, law.shape[0]
    for secret, known in _secret_sets(n, against, window):
        order = (*known, *secret, *_unknown(n, secret, known))
        shape = (k,) * (len(known) + window) + (-1,)
        prior = law.transpose(order).reshape(shape).sum(axis=-1)
        for values in product(range(k), repeat=len(known)):
            histories = [u for u in product(range(k), repeat=window) if prior[(*values, *u)] > 0]
            for x, other in permutations(histories, 2):
                yield Pattern(secret, known, values, x, other)


def likelihood_leakage(
    joint: npt.ArrayLike, limits: npt.ArrayLike, against: Against = "any", window: int = 1
) -> LargestLeak:
    """Return the most that all likelihoods within limits leak: one linear program per pattern.

    The sup of `likelihood_program` over `patterns`; 0 when no secret has two possible values. Up
    to n k^2 (k + 1)^(n - 1) programs: sample the patterns when that is too many.
    """
    worst = LargestLeak(0.0)
    for case in patterns(joint, against, window):
        leakage = likelihood_program(joint, limits, case)
        if worst.target is None or leakage > worst.leakage:
            x, other = (v[0] if window == 1 else v for v in (case.value, case.other))
            facts = tuple(zip(case.known, case.values, strict=True))
            worst = LargestLeak(leakage, case.secret[0], facts, x, other)
    return worst


def pure_dp_adversary(
    joint: npt.ArrayLike,
    epsilon: float,
    target: int,
    known: tuple[int, ...],
    values: tuple[int, ...],
    x: int,
    other: int,
) -> float:
    """Return the most that an epsilon-DP algorithm can leak to one adversary about x against x'.

    `likelihood_program` with the same limit epsilon between any two values of every record.

    >>> twins = [[0.5, 0.0], [0.0, 0.5]]
    >>> round(pure_dp_adversary(twins, 0.5, target=0, known=(), values=(), x=1, other=0), 9)
    1.0
    """
    _check_epsilon(epsilon)
    return likelihood_program(joint, epsilon, Pattern((target,), known, values, (x,), (other,)))


def pure_dp_leakage(joint: npt.ArrayLike, epsilon: float, against: Against = "any") -> LargestLeak:
    """Return the most that any epsilon-DP algorithm leaks about a record.

    >>> independent = [[0.25, 0.25], [0.25, 0.25]]
    >>> round(pure_dp_leakage(independent, 0.5).leakage, 9)
    0.5
    """
    _check_epsilon(epsilon)
    return likelihood_leakage(joint, epsilon, against)


def _check_epsilon(epsilon: float) -> None:
    """Raise InvalidInput unless `epsilon` is a finite number of at least 0."""
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidInput(f"epsilon must be non-negative and finite; found {epsilon}")


def _conditional(
    joint: npt.ArrayLike, limits: npt.ArrayLike, case: Pattern
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both conditional laws on (secret, unknown records), and the limits of these records.

    The laws are Pr[. | x_K, x] and Pr[. | x_K, x'], each 0 off its own value of the secret.
    """
    law = _law(joint)
    n, k = law.ndim, law.shape[0]
    secret, known, values, x, other = case
    _check_records(n, (*secret, *known))
    numbers = (*values, *x, *other)
    sizes = (len(values), len(x), len(other))
    if sizes != (len(known), len(secret), len(secret)) or not all(0 <= v < k for v in numbers):
        raise InvalidInput(f"x, other and one value per known record must be in 0..{k - 1}")
    unknown = _unknown(n, secret, known)
    table = law.transpose((*known, *secret, *unknown))[tuple(values)]
    mass = [float(table[u].sum()) for u in (x, other)]
    if x == other or not min(mass) > 0:
        raise InvalidInput("x and other must differ and both be possible given the known values")
    top, bottom = np.zeros((2, *table.shape))
    top[x], bottom[other] = table[x] / mass[0], table[other] / mass[1]
    return top, bottom, record_limits(limits, n, k)[[*secret, *unknown]]


def record_limits(limits: npt.ArrayLike, records: int, states: int) -> FloatArray:
    """Return the limits of every record, shape (n, k, k), closed under the triangle inequality.

    >>> record_limits([[0, 1, 9], [1, 0, 1], [9, 1, 0]], records=1, states=3)[0, 0]
    array([0., 1., 2.])
    """
    theta = np.asarray(limits, dtype=np.float64)
    shapes = ((), (states, states), (records, states, states))
    if theta.shape not in shapes or not np.all((theta >= 0) & np.isfinite(theta)):
        raise InvalidInput(
            f"limits must be finite and non-negative, of one of the shapes {shapes}; found "
            f"{theta.shape}"
        )
    closed = np.broadcast_to(theta, (records, states, states)) * (1 - np.eye(states))
    for v in range(states):
        closed = np.minimum(closed, closed[:, :, v, None] + closed[:, None, v, :])
    return closed


@lru_cache(maxsize=16)
def _cone(shape: tuple[int, ...], limits: bytes, units: bytes) -> csr_array:
    """Return the rows of A (phi units) <= 0 for exactly the likelihoods within limits (r, k, k)."""
    records, k, _ = shape
    theta, unit = np.frombuffer(limits).reshape(shape), np.frombuffer(units)
    index = np.arange(k**records).reshape((k,) * records)
    pairs = [(t, a, b) for t in range(records) for a, b in permutations(range(k), 2)]
    upper = [index.take(a, axis=t).ravel() for t, a, _ in pairs]
    lower = [index.take(b, axis=t).ravel() for t, _, b in pairs]
    columns = np.concatenate([*upper, *lower]) if pairs else np.zeros(0, dtype=np.intp)
    size = columns.size // 2
    factors = np.repeat([math.exp(theta[pair]) for pair in pairs], k ** (records - 1))
    factors = factors * unit[columns[:size]] / unit[columns[size:]]
    entries = np.concatenate([np.ones(size), -factors])
    return csr_array((entries, (np.tile(np.arange(size), 2), columns)), shape=(size, k**records))


def _secret_sets(
    n: int, against: Against, window: int = 1
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (secret records, known records) of every adversary that `against` names."""
    if isinstance(against, tuple):
        target, known = against
        secret = tuple(range(target, target + window))
        _check_records(n, (*secret, *known))
        yield secret, tuple(known)
        return
    free = n - window
    sizes = {"any": range(free + 1), "ignorant": (0,), "informed": (free,)}.get(against)
    if sizes is None:
        raise InvalidInput(f"against must be any, ignorant, informed or a pair; found {against!r}")
    for target, size in product(range(free + 1), sizes):
        secret = tuple(range(target, target + window))
        for known in combinations(_unknown(n, secret, ()), size):
            yield secret, known


def _check_records(n: int, records: tuple[int, ...]) -> None:
    """Raise InvalidInput unless the records of an adversary are distinct and exist."""
    if len(set(records)) < len(records) or not set(records) <= set(range(n)):
        raise InvalidInput(f"target and known must be distinct and in 0..{n - 1}: {records}")


def _unknown(n: int, secret: tuple[int, ...], known: tuple[int, ...]) -> tuple[int, ...]:
    """Return the records that are neither secret nor known, in order."""
    return tuple(record for record in range(n) if record not in secret and record not in known)


def _law(joint: npt.ArrayLike) -> FloatArray:
    """Return the joint table as floats, having checked that it is a law on (k,) * n."""
    law = np.asarray(joint, dtype=np.float64)
    if law.ndim < 1 or len(set(law.shape)) != 1 or not law.size:
        raise InvalidInput(f"joint must have shape (k,) * n with n, k >= 1; found {law.shape}")
    _refuse_large(law.size, f"{law.shape[0]}^{law.ndim} joint probabilities")
    if not np.all(law >= 0) or not abs(law.sum() - 1.0) <= SUM_TOLERANCE:
        raise InvalidInput(
            f"joint must be non-negative and sum to 1 within {SUM_TOLERANCE}; its least entry is "
            f"{law.min():g} and its sum {law.sum():.12g}"
        )
    return law


def _refuse_large(size: int, what: str) -> None:
    """Raise InvalidInput if a table of `size` entries is beyond the limit of enumeration."""
    if size > TABLE_LIMIT:
        limit = f"the limit is {TABLE_LIMIT} entries; take fewer records or states"
        raise InvalidInput(f"enumeration would hold {what}; {limit}")
