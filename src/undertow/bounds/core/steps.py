"""One record inwards: the local program, the pairwise step and the signed sweep.

A side of a target is summed up by D(s, s') >= ln E[g | S = s, known] / E[g | S = s', known] over
all likelihoods g of the unknown records beyond. `step` carries D one record inwards, `signed_sweep`
bounds one pair through a gap of unknown records (docs, theory-engine: E0, E2, E3).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import STEP, PositiveArray, add_upper, exp_upper, log_upper_of
from undertow.numerics import Array

__all__ = ["block_step", "local_program", "metric_closure", "signed_sweep", "step"]

Places = npt.NDArray[np.intp]

BEYOND = 230.0
"""Logarithm of a price from which the search no longer tells prices apart (cost; plans stay
bounds)."""

TIE = 1e-13
"""What ties between rows of a program are broken by, relative (search only)."""

SLACK = 1e-11
"""What prices are raised by while a plan is sought (search only): programs with ties end early."""

NEGLIGIBLE = 1e-12
"""Share of a row's flow that is left out of a plan (search only)."""

VANISHING = 1e-290
"""What entries of a sweep are raised by, beside a largest one of 1: products that underflow."""

MOST_VARIABLES = 32
"""Variables of a block up to which its programs are solved (cost)."""

MOST_PIVOTS = 40
"""Pivots for each hidden state before the search takes the plan it has (cost)."""

LARGEST_LOG = 350.0
"""Largest level and largest ln mu of a sweep: no product of both overflows, every sum has a
sign."""

HALVINGS = 100
"""Halvings of a bracket of ln mu in a sweep at most (cost)."""

NARROW = 1e-11
"""Width at which a bracket of ln mu is not halved further, relative (upper side)."""


MOST_LOG = 300.0
"""Largest ln mu that a sweep tries (upper side: beyond, no bound is claimed): no product
overflows."""


def local_program(
    alpha: PositiveArray | Array, beta: PositiveArray | Array, distance: Array
) -> tuple[Array, Array, Array]:
    """Return the largest alpha.u / beta.u over the u with u(i) <= e^D(i,j) u(j), rounded up.

    Every plan of the dual is an upper bound (docs, theory-engine: E0), so the search is in floats
    and only the quotient of the plan is rounded.

    Parameters
    ----------
    alpha, beta
        Shape (..., m): non-negative masses, exact if they are plain arrays.
    distance
        D, shape (m, m) or (..., m, m), directed; inf where nothing is known.

    Returns
    -------
    value_upper, plan, u
        The bound, shape (...); the plan that proves it, (..., m, m): the share of what row i
        cannot keep that column j takes at the price e^D(i,j), rows of senders sum to 1; and the u
        that attains it up to rounding, (..., m).

    >>> value, plan, u = local_program(np.array([.8, .2]), np.array([.4, .6]), np.full((2, 2), 1.))
    >>> round(float(value), 6), bool(value >= (.8 * np.e + .2) / (.4 * np.e + .6))
    (1.407342, True)
    """
    top = alpha if isinstance(alpha, PositiveArray) else PositiveArray.of(alpha)
    bottom = beta if isinstance(beta, PositiveArray) else PositiveArray.of(beta)
    shape = np.broadcast_shapes(top.shape, bottom.shape, distance.shape[:-1])
    size = shape[-1]
    masses = [np.broadcast_to(one.values, shape).reshape(-1, size) for one in (top, bottom)]
    prices = np.broadcast_to(distance, (*shape, size)).reshape(-1, size, size)
    flow, u = _search(masses[0], masses[1], prices)
    value, plan = _certify(masses[0], masses[1], prices, flow)
    power = (top.exponent - bottom.exponent)[..., 0]  # one for each program
    value = value.reshape(shape[:-1]) * (1 + 2 * (top.error + bottom.error))
    with np.errstate(over="ignore"):
        value = np.ldexp(value, np.broadcast_to(power, shape[:-1]))
    return value, plan.reshape(*shape, size), u.reshape(shape)


@np.errstate(over="ignore", invalid="ignore")  # a plan is checked whatever the search does
def _search(alpha: Array, beta: Array, distance: Array) -> tuple[Array, Array]:
    """Return optimal flows of the dual programs (b, m, m) and their multipliers u (b, m).

    min lambda with  sum_j pi_ij - sum_j pi_ji e^D(j,i) + lambda beta_i >= alpha_i: a simplex on
    all programs at once, from the plan in which everything flows to one column.
    """
    count, size = alpha.shape
    rows, all_rows = np.arange(count), np.arange(size)
    # rows without any mass neither send nor receive: in a closed metric no flow passes through them
    idle = (alpha == 0) & (beta == 0)
    a = alpha / np.maximum(alpha.max(axis=1, keepdims=True), 1e-300)
    a = np.where(idle, 0.0, a * (1 + TIE * (1 + all_rows)) + 1e-16 * (1 + all_rows))
    b = beta / np.maximum(beta.max(axis=1, keepdims=True), 1e-300)
    price = np.exp(np.minimum(distance + SLACK, BEYOND))  # (b, from, to)
    price[:, all_rows, all_rows] = 1.0
    # the hub: the column j to which all flows at the least lambda = sum_i alpha_i e^D(i,j) / beta_j
    with np.errstate(divide="ignore"):
        lone = np.einsum("bi,bij->bj", a, price) / b
    hub = np.where(idle | np.isnan(lone), np.inf, lone).argmin(axis=1)
    inverse, basic = _start(a, b, price[rows, :, hub], hub)
    level = np.einsum("bij,bj->bi", inverse, a)
    is_hub = all_rows == hub[:, None]
    barred = idle[:, :, None] | idle[:, None, :]
    live = np.ones(count, dtype=bool)
    for _ in range(MOST_PIVOTS * size):
        u = inverse[rows, hub]  # (b, m): multipliers, since lambda alone costs
        gain = u[:, :, None] - price * u[:, None, :]  # of pi_ij; of slack i: -u_i
        gain[:, all_rows, all_rows] = -u
        gain = np.where(barred, -np.inf, gain)
        best = gain.reshape(count, -1).argmax(axis=1)
        live &= gain.reshape(count, -1)[rows, best] > 1e-14 * np.maximum(u.max(axis=1), 1e-300)
        if not live.any():
            break
        i, j = best // size, best % size
        slack = i == j
        column = inverse[rows, :, i] * np.where(slack, -1.0, 1.0)[:, None]
        column = column - np.where(slack, 0.0, price[rows, i, j])[:, None] * inverse[rows, :, j]
        with np.errstate(divide="ignore"):
            ratio = np.where((column > 1e-14) & ~is_hub, level / column, np.inf)
        leave = ratio.argmin(axis=1)
        live &= np.isfinite(ratio[rows, leave])
        pivot = np.where(live, column[rows, leave], 1.0)
        row = inverse[rows, leave] / pivot[:, None]
        amount = np.maximum(level[rows, leave], 0.0) / pivot
        changed = inverse - column[:, :, None] * row[:, None, :]
        changed[rows, leave] = row
        moved = level - column * amount[:, None]
        moved[rows, leave] = amount
        inverse = np.where(live[:, None, None], changed, inverse)
        level = np.where(live[:, None], moved, level)
        entering = np.where(slack, size * size + i, best)
        basic[rows, leave] = np.where(live, entering, basic[rows, leave])
    flow = np.zeros((count, size * size + size))
    masked = np.where(is_hub, 0.0, np.maximum(level, 0.0))
    np.put_along_axis(flow, np.where(is_hub, size * size, basic), masked, axis=1)
    flow[:, size * size :] = 0.0
    u = np.where(idle, np.inf, np.maximum(inverse[rows, hub], 0.0))
    # those without mass take the largest u that the cone has
    u = np.where(idle, (price * u[:, None, :]).min(axis=2), u)
    return flow[:, : size * size].reshape(count, size, size), u


def _start(a: Array, b: Array, to_hub: Array, hub: Places) -> tuple[Array, Places]:
    """Return the basis of the best plan that sends to the hub alone: its inverse, its variables.

    Variables are numbered pi_ij as i m + j and slacks as m^2 + i; lambda stands in the hub's row.
    Rows that have more than lambda beta_i send the rest, all others keep what they have.
    """
    count, size = a.shape
    rows, all_rows = np.arange(count), np.arange(size)
    sends = np.zeros((count, size), dtype=bool)
    for _ in range(size + 1):  # lambda rises with every round (Dinkelbach)
        weight = np.maximum(b[rows, hub] + (to_hub * b * sends).sum(axis=1), 1e-200)
        level = (a[rows, hub] + (to_hub * a * sends).sum(axis=1)) / weight
        wanted = (a > level[:, None] * b) & (all_rows != hub[:, None])
        if (wanted == sends).all():
            break
        sends = wanted
    weight = np.maximum(b[rows, hub] + (to_hub * b * sends).sum(axis=1), 1e-200)
    lambdas = np.where(sends, to_hub, 0.0)
    lambdas[rows, hub] = 1.0
    lambdas = lambdas / weight[:, None]
    # senders: pi_i = alpha_i - lambda beta_i; others: slack_i = lambda beta_i - alpha_i
    sign = np.where(sends, 1.0, -1.0)
    inverse = np.zeros((count, size, size))
    inverse[:, all_rows, all_rows] = sign
    inverse -= (sign * b)[:, :, None] * lambdas[:, None]
    inverse[rows, hub] = lambdas
    basic = np.where(sends, all_rows * size + hub[:, None], size * size + all_rows)
    return inverse, basic


def _certify(alpha: Array, beta: Array, distance: Array, flow: Array) -> tuple[Array, Array]:
    """Return the value of a plan rounded up, (b,), and the plan as shares, (b, m, m).

    With senders S and shares f, lambda = max over columns j outside S of
    (alpha_j + sum_i f_ij e^D(i,j) alpha_i) / (beta_j + sum_i f_ij e^D(i,j) beta_i) is a bound as
    soon as every sender has alpha_i >= lambda beta_i: it then keeps lambda beta_i, sends the rest.
    """
    size = alpha.shape[1]
    out = flow.sum(axis=2)
    received = flow.sum(axis=1)
    sends = (out > received) & (alpha > 0)
    share = np.where(sends[:, :, None] & ~sends[:, None, :], flow, 0.0)
    share[:, np.arange(size), np.arange(size)] = 0.0
    share = np.where(share > NEGLIGIBLE * share.sum(axis=2, keepdims=True), share, 0.0)
    total = share.sum(axis=2)
    sends &= total > 0
    share = share / np.where(total > 0, total, 1.0)[:, :, None]
    price = exp_upper(distance)  # (b, i, j)
    pad = 1 + (4 * size + 16) * STEP
    value = np.full(len(alpha), np.inf)
    live = np.ones(len(alpha), dtype=bool)
    for _ in range(size + 1):
        # shares sum to 1 only up to rounding: they are raised on top, lowered below
        with np.errstate(invalid="ignore", over="ignore"):
            load = np.where(share > 0, share * price, 0.0)
            above = alpha + np.einsum("bij,bi->bj", load, alpha)
            below = beta + np.einsum("bij,bi->bj", load, beta)
        quotient = _quotient(above * pad, below / pad)
        value = np.where(live, np.where(sends, 0.0, quotient).max(axis=1), value)
        # a sender that is to keep more than it has sends nothing
        with np.errstate(invalid="ignore"):  # inf * 0: nothing has to be kept
            kept = np.where(beta > 0, value[:, None] * beta * (1 + 4 * STEP), 0.0)
        weak = sends & (alpha < kept)
        live = weak.any(axis=1)
        if not live.any():
            break
        sends = sends & ~weak
        share = np.where(weak[:, :, None], 0.0, share)
    alone = _quotient(alpha * (1 + 2 * STEP), beta).max(axis=1)  # nothing is sent
    better = alone <= value
    return np.where(better, alone, value), np.where(better[:, None, None], 0.0, share)


def _quotient(above: Array, below: Array) -> Array:
    """Return above / below rounded up by a rounding, with 0 / 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = above / below * (1 + 2 * STEP)
    return np.asarray(np.where(above == 0, 0.0, np.where(np.isnan(quotient), np.inf, quotient)))


def metric_closure(distance: Array) -> Array:
    """Return the shortest sums of D along paths, rounded up: bounds on the same quantity.

    >>> metric_closure(np.array([[0, 1, 5], [1, 0, 1], [5, 1, 0.0]]))[0, 2].round(6)
    np.float64(2.0)
    """
    closed = np.array(distance)
    for middle in range(closed.shape[-1]):
        around = closed[..., :, middle, None] + closed[..., None, middle, :]
        shorter = around * (1 + 2 * STEP)
        closed = np.where(shorter < closed, shorter, closed)
    return closed


def step(kernel: PositiveArray | Array, distance: Array) -> Array:
    """Return the bounds D one record further inwards, shape (..., s, s').

    D'(s, s') = max(0, ln lfp(K(s, .), K(s', .), C)) for K = ``kernel`` (..., s, z): the joint
    weight of the next hidden state and what is known beyond, of which rows need not sum to 1, and
    C = ``distance`` (..., z, z'). A row of zeros is a state that cannot occur: nothing binds it.

    >>> K = np.array([[.9, .1], [.1, .9]])
    >>> round(float(step(K, np.array([[0.0, 1.0], [1.0, 0.0]]))[0, 1]), 6)
    0.776137
    """
    table = kernel if isinstance(kernel, PositiveArray) else PositiveArray.of(kernel)
    size = table.shape[-2]
    first, second = map(np.array, zip(*_ordered(size), strict=True))
    rows = table.values
    batch = rows.shape[:-2]
    # (..., pairs, z): quotients of joint weights, then of their totals
    exponent = np.broadcast_to(table.exponent, (*batch, size, 1))
    tops = PositiveArray(rows[..., first, :], exponent[..., first, :], table.error)
    bottoms = PositiveArray(rows[..., second, :], exponent[..., second, :], table.error)
    value, _, _ = local_program(tops, bottoms, distance[..., None, :, :])
    totals = table.sum(axis=-1)
    odds = (
        PositiveArray(totals.values[..., second, 0], exponent[..., second, 0], totals.error)
        / PositiveArray(totals.values[..., first, 0], exponent[..., first, 0], totals.error)
    )  # fmt: skip
    with np.errstate(invalid="ignore"):  # inf * 0 where a state cannot occur
        bound = np.maximum(log_upper_of(value * odds.upper() * (1 + 2 * STEP)), 0.0)
    possible = (totals.values > 0)[..., 0]
    alive = possible[..., first] & possible[..., second]
    bounds = np.zeros((*batch, size, size))
    bounds[..., first, second] = np.where(alive, bound, math.inf)
    return metric_closure(bounds)


def block_step(
    kernels: Sequence[Array],
    symbols: Places,
    diff: Array,
    weights: PositiveArray,
    distance: Array,
    error: float = 0.0,
) -> Array | None:
    """Return the bounds D several records further inwards at once, shape (..., s, s').

    Variables are the symbols of the unknown records passed and the hidden state z of the last one:
    C = the sum of the limits of the symbols + D(z, z') (docs, theory-engine: E2). Tighter where one
    step alone contracts little, as where transitions are impossible.

    Parameters
    ----------
    kernels
        The kernels outwards, one for each record of the block; all but the last are unknown.
    symbols, diff
        The symbol of each hidden state, and the limits between hidden states, (m, m).
    weights, distance
        At the block's last record, as in `signed_sweep`: (..., m) and (..., m, m).
    error
        The relative error of the entries of the kernels.

    None where there are too many variables.
    """
    size, count = len(symbols), int(symbols.max()) + 1
    shows = symbols == np.arange(count)[:, None]
    table = np.eye(size)[:, None, :]  # (s, path, z)
    apart = np.zeros((1, 1))  # (path, path')
    firsts = [int(np.flatnonzero(row)[0]) for row in shows]
    limit = diff[np.ix_(firsts, firsts)]
    for number, kernel in enumerate(kernels):
        table = table @ kernel
        if number < len(kernels) - 1:
            table = (table[:, :, None, :] * shows).reshape(size, -1, size)
            apart = add_upper(apart[:, None, :, None], limit[None, :, None, :])
            apart = apart.reshape(apart.shape[0] * count, -1)
            possible = table.any(axis=(0, 2))
            table, apart = table[:, possible], apart[np.ix_(possible, possible)]
    used = np.argwhere(table.any(axis=0))  # (variables, 2): path and state
    if len(used) > MOST_VARIABLES:
        return None
    path, z = used.T
    rows = PositiveArray(
        table[:, path, z] * weights.values[..., None, z], weights.exponent[..., None, :],
        weights.error + len(kernels) * (error + size * STEP) + STEP,
    ).scaled(-2, -1)  # fmt: skip
    cone = add_upper(apart[np.ix_(path, path)], distance[..., z[:, None], z])
    return step(rows, cone)


def _ordered(size: int) -> list[tuple[int, int]]:
    return [(s, t) for s in range(size) for t in range(size) if s != t]


def signed_sweep(
    kernels: Sequence[Array],
    symbols: Places,
    level: float,
    weights: PositiveArray | Array,
    distance: Array,
    pairs: Sequence[tuple[int, int]],
    error: float = 0.0,
) -> Array:
    """Return upper ends of ln mu for pairs of hidden states through a gap, shape (..., pairs).

    mu bounds E[g w | s] / E[g w | s'] over all likelihoods g that one record moves by at most
    e^level: c = K_1(s, .) - mu K_1(s', .) is carried outwards by c'(z) = sum over symbols v of
    C_v(z) e^(level 1[C_v(z) > 0]), C_v(z) = sum over y of symbol v of c(y) K(y, z), and mu is
    an upper end if sup over the cone of D of (c w).u <= 0 at the end. Exact where nothing is
    hidden.

    Parameters
    ----------
    kernels
        The kernels outwards from the pair: K_1, ..., K_l; all but the last lead to unknown
        records whose symbol the likelihood sees.
    symbols
        The symbol of each hidden state.
    level
        The limit of one unknown record.
    weights, distance
        At the record where the sweep ends, shapes (..., m) and (..., m, m): what is known from
        there on, q (on one symbol, if the record is known), and the bounds D (with the record's
        own limits, if it is unknown).
    pairs
        The pairs (s, s').
    error
        The relative error of the entries of the kernels.

    >>> K = np.array([[.9, .1], [.1, .9]])
    >>> ends = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> round(float(signed_sweep([K], np.arange(2), 1.0, np.ones(2), ends, [(0, 1)])[0]), 6)
    0.776137
    """
    w = weights if isinstance(weights, PositiveArray) else PositiveArray.of(weights)
    ends = w.values[..., None, :]  # (..., 1, z)
    first, second = (np.array(part) for part in zip(*pairs, strict=True))
    count = int(symbols.max()) + 1
    shows = np.asarray(symbols == np.arange(count)[:, None], dtype=np.float64)
    plain = kernels[0]
    for kernel in kernels[1:]:
        plain = plain @ kernel
        plain = plain / plain.max()
    masses = w.values @ plain.T  # (..., s)
    above, below = masses[..., first], masses[..., second]
    possible = (above > 0) & (below > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(possible, np.log(above) - np.log(below), 0.0)
    finite = np.where(np.isfinite(distance), distance, 0.0).max(initial=0.0)
    low, high = middle - 1e-9, middle + level * (len(kernels) - 1) + finite + 1e-6
    shape = np.broadcast_shapes(low.shape, (*distance.shape[:-2], 1))
    if level > LARGEST_LOG:
        return np.full(shape, math.inf)
    high = np.minimum(high, LARGEST_LOG)
    span = exp_upper(np.asarray(level))
    slack = (len(shows[0]) + 6) * STEP + 2 * error
    grow = 1 + 2 * (w.error + 2 * STEP)

    alike = _alike(distance)

    def logs_at(log_mu: Array) -> Array:
        """Return ln sup (c w)^+.u / (c w)^-.u rounded up: e^log_mu is an upper end where <= 0."""
        mu = np.exp(log_mu)[..., None] * (1 - 8 * STEP)
        one, two = kernels[0][first], mu * kernels[0][second]
        c = one - two + (4 * STEP + 2 * error) * (one + two)  # (..., pairs, y)
        for kernel in kernels[1:]:
            parts = c[..., None, :] * shows  # (..., pairs, symbols, y)
            sums = parts @ kernel + slack * (np.abs(parts) @ kernel)
            sums = np.where(sums > 0, sums * span, sums)
            c = sums.sum(axis=-2) + (count + 2) * STEP * np.abs(sums).sum(axis=-2)
            c = c / np.maximum(np.abs(c).max(axis=-1, keepdims=True), 1e-290)
            c = np.where(c > 0, c * (1 + 2 * STEP), c * (1 - 2 * STEP)) + VANISHING
        positive = np.where(c > 0, c * ends * grow, 0.0)
        negative = np.where(c < 0, -c * ends / grow, 0.0)
        if alike is not None:
            value = _of_two(positive @ alike, negative @ alike, distance, alike)
        else:
            value, _, _ = local_program(positive, negative, distance[..., None, :, :])
        return log_upper_of(value)

    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    at_low, at_high = logs_at(low), logs_at(high)
    high = np.where(possible & (at_high <= 0), high, math.inf)
    for turn in range(HALVINGS):
        wide = np.isfinite(high) & (high - low > NARROW * np.maximum(1.0, np.abs(high)))
        if not wide.any():
            break
        middle = _between(low, high, at_low, at_high, turn)
        tried = np.where(wide, middle, low)
        value = logs_at(tried)
        good = value <= 0
        high, at_high = np.where(wide & good, tried, high), np.where(wide & good, value, at_high)
        low, at_low = np.where(wide & ~good, tried, low), np.where(wide & ~good, value, at_low)
    return high


def _between(low: Array, high: Array, at_low: Array, at_high: Array, turn: int) -> Array:
    """Return where a decreasing function is tried next: near its zero by the secant, or halfway.

    Two of three turns aim a little to either side of the secant's zero, so that both ends close in.
    """
    half = (low + high) / 2
    if turn % 3 == 2:
        return half
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = at_low / (at_low - at_high)
        aim = low + share * (high - low) + (0.5 - turn % 3) * 0.25 * NARROW * (1 + np.abs(high))
        inside = (aim > low) & (aim < high)
    return np.asarray(np.where(inside, aim, half))


def _alike(distance: Array) -> Array | None:
    """Return which hidden states are bound to each other, (m, 2), if they form two classes."""
    bound = ((distance == 0) & (np.swapaxes(distance, -1, -2) == 0)).reshape(
        -1, *distance.shape[-2:]
    ).all(axis=0)  # fmt: skip
    classes = np.unique(bound, axis=0)
    if len(classes) != 2 or (classes.sum(axis=0) != 1).any():
        return None
    return np.asarray(classes.T, dtype=np.float64)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _of_two(alpha: Array, beta: Array, distance: Array, alike: Array) -> Array:
    """Return the largest alpha.u / beta.u of two classes of hidden states, rounded up.

    The quotient is monotone in u_1 / u_0, so it is largest at an end of the cone.
    """
    one, two = (np.flatnonzero(column) for column in alike.T)
    apart = [
        distance[..., a[:, None], b].min(axis=(-2, -1))[..., None]  # (..., 1)
        for a, b in ((one, two), (two, one))
    ]
    # a price of inf is that of a wider cone: no product with another one overflows
    prices = [np.where(d > 2 * LARGEST_LOG, np.inf, exp_upper(d)) for d in apart]
    pad = 1 + (2 * len(alike) + 12) * STEP  # sums over classes, products and quotients
    values = []
    for place, price in enumerate(prices):  # u of class place is e^D times the other's
        load = [np.where(part[..., place] > 0, part[..., place] * price, 0.0)
                for part in (alpha, beta)]  # fmt: skip
        rest = [part[..., 1 - place] for part in (alpha, beta)]
        ends = np.where(np.isinf(price), _quotient(alpha[..., place], beta[..., place]), 0.0)
        finite = _quotient(load[0] + rest[0], load[1] + rest[1])
        # an end at infinity: the class alone, or where it has no mass the other
        empty = (alpha[..., place] == 0) & (beta[..., place] == 0)
        values.append(np.where(np.isinf(price) & ~empty, ends, finite))
    return np.asarray(np.maximum(*values) * pad)
