"""The mutants: (file of a distribution, text that is there once, its replacement, tests to try).

Each stands for a slip that a person makes: a flipped comparison, a wrong sign or index, an end off
by one, a check or a term of a budget left out, a rounding to the wrong side where it decides.
"""

EXCHANGE = "tests/contracts/test_chain_exchange.py"
COUNTS = "tests/contracts/test_chain_counts.py"
LENGTHS = "tests/contracts/test_chain_lengths.py tests/bounds/test_reference.py"
CHAINS = f"{EXCHANGE} {COUNTS} {LENGTHS}"
COUNTED = f"{COUNTS} {LENGTHS}"
REPLAYED = f"tests/bounds/test_replay.py {COUNTED}"
STUBBORN = "tests/bounds/test_stubborn_counts.py"
LAWS = "tests/contracts/test_chain_laws.py"
SCALES = "tests/contracts/test_method_scales.py tests/contracts/test_method_laws.py"
METHODS = f"tests/contracts/test_methods.py {SCALES}"
QUILTS = f"tests/bounds/test_quilt.py {METHODS}"
WASSERSTEIN = f"tests/bounds/test_wasserstein.py {METHODS}"
BOXES = "tests/bounds/test_boxes.py tests/bounds/test_box_guards.py"
NETWORKS = "tests/bounds/test_network.py tests/contracts/test_models.py"
PEDIGREES = "tests/bounds/test_pedigree.py tests/contracts/test_models.py"
TREES = "tests/bounds/test_trees.py tests/contracts/test_models.py"
GAUSSIAN = "tests/bounds/test_gaussian.py tests/contracts/test_gaussian_leakage.py"
CLASSES = "tests/bounds/test_gaussian_classes.py tests/contracts/test_models.py"
DEPENDENCE = "tests/bounds/test_dependence.py tests/bounds/test_total_dependence.py"
SEPARATION = "tests/bounds/test_separation.py tests/bounds/test_dependence.py"
SECOND = "tests/bounds/test_second_order.py"
SERIES = "tests/contracts/test_local.py tests/bounds/test_local_own.py"
REDACTION = "tests/contracts/test_local.py tests/contracts/test_redaction_plans.py"
PUBLISHED = "tests/bounds/test_published.py tests/papers"
LOCAL_PAPERS = "tests/papers/test_chakrabarti2022.py tests/bounds/test_local_reference.py"
ENUMERATION = "tests/bounds/test_enumeration.py tests/bounds/test_enumeration_levels.py"
DEFINITIONS = "tests/papers/test_definitions.py"
RULES = "tests/ledger/test_rules.py tests/ledger/test_contract.py"
LEDGER = "tests/ledger/test_contract.py tests/ledger/test_rules.py tests/ledger/test_cancel.py"
TAMPERING = "tests/ledger/test_tampering.py tests/ledger/test_memory.py"
MEMORY = "tests/ledger/test_memory.py tests/ledger/test_tampering.py"
CURRENCY = "tests/ledger/test_currency.py tests/ledger/test_contract.py"
RELEASES = "tests/test_releasing.py tests/test_release_identity.py tests/test_release_shapes.py"
ACCOUNTS = f"{RELEASES} tests/test_sanitizing_ledger.py"

MUTANTS: list[tuple[str, str, str, str]] = [
    # --- chains: the exchange rate ---------------------------------------------------------------
    (
        "undertow/bounds/levels/exchange.py",
        "upper = min(upper, up(chain.length * epsilon))",
        "upper = min(upper, up((chain.length - 1) * epsilon))",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/exchange.py",
        "upper = up(found.upper, 16) + start_error(chain)",
        "upper = down(found.lower, 16)",
        f"{CHAINS} {LAWS}",
    ),
    (
        "undertow/bounds/levels/exchange.py",
        "lower = max(down(value, 64), 0.0)",
        "lower = up(value, 64)",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/exchange.py",
        "slack = found.lower + gap - own - high[:, ::-1]",
        "slack = found.lower + gap - own - high",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/exchange.py",
        "lows = np.where(feasible, own + joined(low[:, 0], low[:, 1])",
        "lows = np.where(feasible, own + joined(low[:, 0], low[:, 0])",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/exchange.py",
        "goal = best + width * max(1.0, best) / 2",
        "goal = best",
        f"{CHAINS} {LAWS}",
    ),
    (
        "undertow/bounds/levels/sweep.py",
        "spent = np.where(signed > 0, signed, kept * signed)",
        "spent = np.where(signed >= 0, kept * signed, signed)",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sides.py",
        "    right = records - 1 - ends\n",
        "    right = records - ends\n",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sides.py",
        "left = np.clip(positions - step, 0, records - 2)",
        "left = np.clip(positions - step + 1, 0, records - 2)",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sides.py",
        "return low - pad, high + pad",
        "return high - pad, low + pad",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sides.py",
        "gaps = [record - against.target for record in against.known]",
        "gaps = [against.target - record for record in against.known]",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sides.py",
        "return min(left, default=0), min(right, default=0)",
        "return max(left, default=0), max(right, default=0)",
        CHAINS,
    ),
    (
        "undertow/bounds/levels/sweep.py",
        "half = (r * e * e - q) / 2",
        "half = (r * e * e + q) / 2",
        "tests/papers/test_chakrabarti2022.py tests/planning",
    ),
    # --- chains: noisy counts --------------------------------------------------------------------
    (
        "undertow/bounds/counts/laplace.py",
        "step = np.subtract(marks[value], marks[other], dtype=float) / scale",
        "step = np.subtract(marks[other], marks[value], dtype=float) / scale",
        COUNTED,
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "moved[:, counted, :, 0] = -np.inf",
        "moved[:, counted, :, 0] = path[:, counted, :, 0]",
        COUNTED,
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "before[..., 1:] = rising[..., :-1] - rate",
        "before[..., 1:] = rising[..., :-1]",
        COUNTED,
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "if marks[target.value] != marks[target.other]:",
        "if marks[target.value] == marks[target.other]:",
        COUNTED,
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "np.add(with_left, right), np.add(left, with_right))",
        "np.add(with_left, right), np.add(left, with_right) - 0.3)",
        f"{STUBBORN} {COUNTS}",
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "drift(wave, spread + hint)",
        "drift(wave, spread / 2)",
        STUBBORN,
    ),
    (
        "undertow/bounds/counts/laplace.py",
        "> high[y] * most[x]",
        "> 0.9 * high[y] * most[x]",
        STUBBORN,
    ),
    (
        "undertow/bounds/levels/replay.py",
        "loss = logs[0] - logs[1] - slack - 2 * _law_error(chain, first)",
        "loss = logs[0] - logs[1] + slack + 1e-3",
        REPLAYED,
    ),
    (
        "undertow/bounds/levels/replay.py",
        "grown[:, 1:] += table * marks[:, None]",
        "grown[:, :-1] += table * marks[:, None]",
        REPLAYED,
    ),
    # --- chains: quilts, Wasserstein, classes ----------------------------------------------------
    (
        "undertow/bounds/channels/quilts.py",
        "room = self.epsilon - influence",
        "room = self.epsilon",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/quilts.py",
        "return (self.record + 1 if self.left is None else self.left) + right - 1",
        "return (self.record + 1 if self.left is None else self.left) + right - 2",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/quilts.py",
        "left[inside, step] = before @ left[inside, step - 1]",
        "left[inside, step] = left[inside, step - 1] @ before",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/quilts.py",
        "return Influence(2 * once, once)",
        "return Influence(once, once)",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/quilts.py",
        "once[decay >= pi_min] = np.inf",
        "once[decay >= pi_min] = 0.0",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/quilts.py",
        "gap = 1 - float(second)",
        "gap = float(second)",
        QUILTS,
    ),
    (
        "undertow/bounds/channels/wasserstein.py",
        "return down, shift(second, first, margin)",
        "return down, shift(first, second, margin)",
        WASSERSTEIN,
    ),
    (
        "undertow/bounds/channels/wasserstein.py",
        "upper = max(upper, *spread(both[0], both[1], MARGIN))",
        "upper = max(upper, *spread(both[0], both[0], MARGIN))",
        WASSERSTEIN,
    ),
    (
        "undertow/bounds/channels/wasserstein.py",
        "worst = max(worst, abs(a - b))",
        "worst = max(worst, a - b)",
        "tests/bounds tests/planning/test_search.py",
    ),
    (
        "undertow/bounds/levels/classes.py",
        "_range(least - share, most + share, low, high, left, right)",
        "_range(least, most, low, high, left, right)",
        BOXES,
    ),
    (
        "undertow/bounds/levels/classes.py",
        "longer = np.minimum(around - shorter, room + 1)",
        "longer = np.minimum(around - 1 - shorter, room + 1)",
        BOXES,
    ),
    # --- networks, pedigrees, trees --------------------------------------------------------------
    (
        "undertow/bounds/networks/counts.py",
        "pair = int(np.nanargmax(column)), int(np.nanargmin(column))",
        "pair = int(np.nanargmin(column)), int(np.nanargmax(column))",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/counts.py",
        "top = max(findings, key=lambda finding: finding.value)",
        "top = min(findings, key=lambda finding: finding.value)",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/quilts.py",
        "ratio = log_ratio(joint[x], joint[other]) - math.log(own[x] / own[other])",
        "ratio = log_ratio(joint[x], joint[other]) + math.log(own[x] / own[other])",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/quilts.py",
        "moved = min(mass, other)",
        "moved = max(mass, other)",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/levels.py",
        "upper = max(upper, min(bound, most))",
        "upper = min(bound, most)",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/counts.py",
        "seen = np.array([points + 1 - offset for offset in offsets])",
        "seen = np.array([points + 1 + offset for offset in offsets])",
        NETWORKS,
    ),
    (
        "undertow/bounds/networks/pedigrees.py",
        "upper = 0.0 if bracket is None else min(up(bracket.upper), ceiling)",
        "upper = 0.0 if bracket is None else min(bracket.lower, ceiling)",
        PEDIGREES,
    ),
    (
        "undertow/bounds/networks/contagions.py",
        "-min(up(leak.upper + 2 * drift), ceiling)",
        "-min(up(leak.upper), ceiling)",
        "tests/bounds/test_contagions.py",
    ),
    (
        "undertow/bounds/trees/leakages.py",
        "back = -bound[1] if p0 >= p1 else bound[0]",
        "back = bound[1] if p0 >= p1 else bound[0]",
        TREES,
    ),
    (
        "undertow/bounds/trees/leakages.py",
        "upper = min(upper, max(leak.upper for leak in every))",
        "upper = min(upper, min(leak.upper for leak in every))",
        TREES,
    ),
    (
        "undertow/bounds/trees/leakages.py",
        "middle = -end / 2 - (first + second) / 2",
        "middle = end / 2 - (first + second) / 2",
        TREES,
    ),
    # --- numbers: Gaussian records ---------------------------------------------------------------
    (
        "undertow/bounds/gaussian/leakages.py",
        "room = down(1 - up(known * rho)) if known else 1.0",
        "room = 1.0",
        CLASSES,
    ),
    (
        "undertow/bounds/gaussian/leakages.py",
        "terms = weights * (np.minimum(bounds, 1.0) if clipped else bounds)",
        "terms = weights * bounds",
        f"{CLASSES} {GAUSSIAN}",
    ),
    (
        "undertow/bounds/gaussian/leakages.py",
        "moved = moved if isinstance(query, Sum) else moved / size",
        "moved = moved",
        GAUSSIAN,
    ),
    (
        "undertow/bounds/gaussian/search.py",
        "return worst, max(upper, worst.upper)",
        "return worst, worst.upper",
        GAUSSIAN,
    ),
    (
        "undertow/bounds/gaussian/search.py",
        "share = matrix[rest, i] / matrix[i, i]",
        "share = -matrix[rest, i] / matrix[i, i]",
        GAUSSIAN,
    ),
    # --- dependence, second order, published -----------------------------------------------------
    (
        "undertow/bounds/dependent.py",
        "largest = (high - low).max(axis=-1)",
        "largest = (high - low).min(axis=-1)",
        SEPARATION,
    ),
    (
        "undertow/bounds/dependent.py",
        "return divide_up(max(totals), 1.0)",
        "return divide_up(min(totals), 1.0)",
        DEPENDENCE,
    ),
    (
        "undertow/bounds/dependent.py",
        "low, high = (low, scale) if loss <= epsilon else (scale, high)",
        "low, high = (low, scale) if loss >= epsilon else (scale, high)",
        DEPENDENCE,
    ),
    (
        "undertow/bounds/dependent.py",
        "moves = np.abs(covariance) / np.diag(covariance)[:, None]",
        "moves = np.abs(covariance) / np.diag(covariance)[None, :]",
        DEPENDENCE,
    ),
    (
        "undertow/bounds/memory/second_order.py",
        ("upper = _upper(chain, lambda _: view.own) if (chain.transition > 0).all() else math.inf"),
        "upper = best[0]",
        SECOND,
    ),
    (
        "undertow/bounds/memory/second_order.py",
        "beta = high[..., :, None] - low[..., None, :]",
        "beta = high[..., :, None] + low[..., None, :]",
        SECOND,
    ),
    (
        "undertow/bounds/published.py",
        ("left = np.max(one[:, x] - one[:, other]) - np.min(two[:, x] - two[:, other])"),
        "left = np.max(one[:, x] - one[:, other]) - np.min(one[:, x] - one[:, other])",
        PUBLISHED,
    ),
    (
        "undertow/bounds/published.py",
        "best = max(best, (epsilon - constant) / (2 * t - 1))",
        "best = max(best, (epsilon - constant) / (2 * t + 1))",
        PUBLISHED,
    ),
    (
        "undertow/bounds/published.py",
        "room = 1 / rho - size + 2",
        "room = 1 / rho - size + 1",
        PUBLISHED,
    ),
    (
        "undertow_papers/chakrabarti2022/formulas.py",
        "inner -= 2 * (1 - q - r - q * r) * kept * flipped",
        "inner -= 2 * (1 - q - r + q * r) * kept * flipped",
        LOCAL_PAPERS,
    ),
    # --- series ----------------------------------------------------------------------------------
    (
        "undertow/bounds/channels/hulls.py",
        "error = shrink * self.error + 2 * delta + 2 * (size + 4) * ROUNDOFF",
        "error = 0.0",
        f"{SERIES}",
    ),
    (
        "undertow/bounds/channels/redaction.py",
        "bracket = replace(bracket, upper=max(bracket.upper, upper))",
        "bracket = replace(bracket, upper=min(bracket.upper, upper))",
        REDACTION,
    ),
    (
        "undertow/bounds/channels/redaction.py",
        "room, sign = (length - 1 - target, 1) if right else (target, -1)",
        "room, sign = (length - target, 1) if right else (target, -1)",
        REDACTION,
    ),
    (
        "undertow/bounds/channels/flips.py",
        "rate = np.array([rho1, rho0]) / (rho0 + rho1)",
        "rate = np.array([rho0, rho1]) / (rho0 + rho1)",
        SERIES,
    ),
    (
        "undertow/bounds/channels/two_states.py",
        "low = np.logaddexp(maps[..., 1, 0, None] + zero, maps[..., 1, 1, None] + one)",
        "low = np.logaddexp(maps[..., 1, 0, None] + one, maps[..., 1, 1, None] + zero)",
        SERIES,
    ),
    (
        "undertow/bounds/channels/redaction.py",
        "below = influences(chain, target, length) <= epsilon",
        "below = influences(chain, target, length) >= epsilon",
        f"{REDACTION} tests/papers",
    ),
    # --- definitions and enumeration -------------------------------------------------------------
    (
        "undertow/bounds/groups.py",
        'exact = Fraction(1 if against == "informed" else size)',
        "exact = Fraction(1)",
        "tests/contracts/test_models.py",
    ),
    (
        "undertow/bounds/metric.py",
        "return PureDP(up(mechanism.dp_epsilon(max(values) - min(values))))",
        "return PureDP(up(mechanism.dp_epsilon(max(values))))",
        "tests/bounds/test_classes_of_chains.py tests/bounds/test_reference.py",
    ),
    (
        "undertow_papers/definitions.py",
        "widths = log_ratio(mechanism.max(axis=axes), mechanism.min(axis=axes))",
        "widths = log_ratio(mechanism.max(axis=axes), mechanism.mean(axis=axes))",
        DEFINITIONS,
    ),
    (
        "undertow_papers/definitions.py",
        "worst = max(worst, float(np.max(widths.max(axis=1) / apart)))",
        "worst = max(worst, float(np.max(widths.max(axis=1) * apart)))",
        DEFINITIONS,
    ),
    (
        "undertow/testing/enumeration.py",
        "low, high = rows.min(axis=1).sum(), rows.max(axis=1).sum()",
        "low, high = rows.min(axis=1).sum(), rows.max(axis=1).sum() - 1",
        ENUMERATION,
    ),
    # --- the ledger: rules -----------------------------------------------------------------------
    (
        "undertow/ledger/rules.py",
        "low, high = max(old.start, start), min(old.end, end)",
        "low, high = max(old.start, start), max(old.end, end)",
        RULES,
    ),
    (
        "undertow/ledger/rules.py",
        'if layout.redaction is not None or (entry.kind == "redaction" and layout.used):',
        "if layout.redaction is not None:",
        RULES,
    ),
    (
        "undertow/ledger/rules.py",
        "if scope.groups is None or layout.by not in (None, scope.by):",
        "if scope.groups is None:",
        RULES,
    ),
    ("undertow/ledger/rules.py", "if layout.clock in (None, scope.clock):", "if True:", RULES),
    (
        "undertow/ledger/rules.py",
        "if recorded.body() != wanted.body():",
        "if recorded.level != wanted.level:",
        RULES,
    ),
    (
        "undertow/ledger/rules.py",
        "return replace(layout, used=live > 0, redaction=None)",
        "return replace(layout, used=True, redaction=None)",
        LEDGER,
    ),
    # --- the ledger: spends, replay, checks, memory ----------------------------------------------
    ("undertow/ledger/entries.py", "self._sizes[own] = len(cells)", "self._sizes[own] = 1", RULES),
    (
        "undertow/ledger/entries.py",
        "changes.append(Change([*where.fresh], [], [*line[:low], *new, *line[high:]]))",
        "changes.append(Change([*where.fresh], [], [*new]))",
        LEDGER,
    ),
    (
        "undertow/ledger/replay.py",
        "if event.previous != previous:",
        "if not event.previous:",
        TAMPERING,
    ),
    (
        "undertow/ledger/replay.py",
        'elif kind == "reserve" and key not in account.lines:',
        'elif kind == "reserve":',
        TAMPERING,
    ),
    (
        "undertow/ledger/checks.py",
        "if any(stored[cell] != expected for cell in cells):",
        "if not stored:",
        TAMPERING,
    ),
    (
        "undertow/ledger/checks.py",
        "if checked.seq > snapshot.head.seq:",
        "if checked.seq > snapshot.head.seq + 1:",
        TAMPERING,
    ),
    (
        "undertow/ledger/checks.py",
        "if last is not None and transaction.hash_at(last[0]) != last[1]:",
        "if last is not None and transaction.hash_at(last[0]) is None:",
        MEMORY,
    ),
    (
        "undertow/ledger/memory.py",
        '"WHERE excluded.seq > heads.seq"',
        '"WHERE excluded.seq < heads.seq"',
        MEMORY,
    ),
    (
        "undertow/ledger/seals.py",
        "content = json.loads(event.body) if self.blind or own == event.hash else None",
        "content = json.loads(event.body)",
        TAMPERING,
    ),
    (
        "undertow/ledger/seals.py",
        'if not hmac.compare_digest(_tag(key, "key", ledger_id), mark):',
        "if not mark:",
        TAMPERING,
    ),
    (
        "undertow/ledger/rules.py",
        "return max(widths) if len(widths) == len(spreads) else None",
        "return min(widths) if len(widths) == len(spreads) else None",
        CURRENCY,
    ),
    (
        "undertow/ledger/rules.py",
        "return leakage(MetricDP(up(level / spread)), model, against)",
        "return leakage(MetricDP(up(level)), model, against)",
        CURRENCY,
    ),
    (
        "undertow/ledger/book.py",
        'if unit == "record" and self.unit == "person":',
        'if unit == "person" and self.unit == "record":',
        LEDGER,
    ),
    # --- releases and accounts -------------------------------------------------------------------
    (
        "undertow/releasing/account.py",
        "reach = rate * (Fraction(spread) + 2 * length * wide / steps)",
        "reach = rate * Fraction(spread)",
        f"{CURRENCY} {ACCOUNTS}",
    ),
    (
        "undertow/releasing/account.py",
        "if _law(plan.model) != _law(ledger.model):",
        "if type(plan.model) is not type(ledger.model):",
        ACCOUNTS,
    ),
    (
        "undertow/releasing/account.py",
        'if ledger.unit == "record" and length is not None and series > length:',
        'if ledger.unit == "record" and length is not None and series > 2 * length:',
        ACCOUNTS,
    ),
    (
        "undertow/releasing/account.py",
        "return self.entry.level or 0.0 if self.found is None else 0.0",
        "return 0.0",
        f"{ACCOUNTS} tests/cli/test_release.py",
    ),
    (
        "undertow/releasing/account.py",
        'if plan.against not in ("any", ledger.against):',
        'if plan.against not in ("any", "ignorant"):',
        ACCOUNTS,
    ),
    (
        "undertow/releasing/request.py",
        "groups = max(1, len(self.groups or ()))",
        "groups = 1",
        RELEASES,
    ),
    (
        "undertow/releasing/request.py",
        "if query.totalled:",
        "if False:",
        "tests/test_public_sums.py",
    ),
    (
        "undertow/queries.py",
        "rows - count for cell",
        "rows + count for cell",
        "tests/test_public_sums.py",
    ),
    (
        "undertow/sampling/totals.py",
        "divmod(total - sum(row), size)",
        "divmod(sum(row) - total, size)",
        "tests/test_public_sums.py",
    ),
    (
        "undertow/bounds/counts/histograms.py",
        "least = farther.min(axis=0)",
        "least = farther.max(axis=0)",
        "tests/bounds/test_histograms.py",
    ),
    (
        "undertow/bounds/counts/histograms.py",
        "np.ones(size) if right else chain.initial",
        "np.ones(size)",
        "tests/bounds/test_histograms.py",
    ),
    (
        "undertow/releasing/request.py",
        "return tuple(alpha * self.plan.length / max(size, 1) for size in sizes)",
        "return tuple(alpha for size in sizes)",
        RELEASES,
    ),
    (
        "undertow/releasing/outputs.py",
        "ledger.begin(name)",
        "ledger.entry(name)",
        ACCOUNTS,
    ),
    (
        "undertow/ledger/rules.py",
        "return total.level <= most and _delta(total, budget - most) <= small",
        "return total.level <= most",
        "tests/ledger/test_approximate.py",
    ),
    (
        "undertow/ledger/rules.py",
        "        most = self._most(total)",
        "        most = total.level",
        "tests/ledger/test_approximate.py",
    ),
    (
        "undertow/ledger/rules.py",
        "return spent.noisy and bool(more.delta or (more.rho and not spent.dense))",
        "return False",
        "tests/ledger/test_approximate.py",
    ),
    (
        "undertow/bounds/curves/leakages.py",
        "if math.log(delta) + exponent > 0:",
        "if math.log(delta) + exponent > 9:",
        "tests/bounds/approximate/test_closed.py tests/contracts/test_approximate.py",
    ),
    (
        "undertow/bounds/counts/gaussian.py",
        "np.where(open_, needed == chain.length, needed <= chain.length)",
        "needed <= chain.length",
        "tests/contracts/test_approximate.py",
    ),
    (
        "undertow/bounds/counts/gaussian.py",
        "positive = np.minimum(first, last) > sag",
        "positive = np.maximum(first, last) > sag",
        "tests/contracts/test_approximate.py",
    ),
    (
        "undertow/bounds/curves/sweep.py",
        "mass = np.where(known, self.products[distances, a, column], 1.0)",
        "mass = np.where(known, self.products[distances, b, column], 1.0)",
        "tests/bounds/approximate",
    ),
]
