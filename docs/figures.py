"""The figures of these pages, drawn by the library while they are built, for light and for dark.

Each figure is drawn once; the dark one is the same file in other colours. What is drawn is kept
under ``_generated/figures`` until this file or the library's version changes.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import undertow as ut
from undertow.figures.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    canvas,
    figure_bytes,
    over,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
DRAWN = HERE / "_generated" / "figures"
ACTIVITY = ((0.882, 0.118), (0.305, 0.695))
# A colour on white, and the one that is as far from the dark theme's background.
DARK = {
    INK: "#e8e8e8",
    GREY: "#a9adb3",
    BLUE: "#58b4f0",
    ORANGE: "#f0955a",
    GREEN: "#3fc49b",
    PURPLE: "#c39be0",
    RED: "#ff7d7d",
    "#E4E4E4": "#33363b",
    "#D5E6F2": "#1d4058",
    "#000000": "#e8e8e8",
    "#ffffff": "#131416",
}
PALE = "#D5E6F2"
_BACKGROUND = re.compile(r'(<g id="patch_1">\s*<path [^>]*style="fill: )#ffffff')


def chain(length: int | None = None) -> ut.MarkovChain:
    """Return the activity chain of [lange2024]."""
    return ut.MarkovChain(ACTIVITY, states=("inactive", "active"), length=length)


def bars() -> "Figure":
    """Draw bounds on what an epsilon-1 count reveals about a record."""
    from undertow.bounds.published import lange_constant, zhao_constant

    exact = ut.leakage(ut.PureDP(1.0), chain()).upper
    rows = [
        ("plain DP: the others stand still", 1.0, GREY),
        ("undertow: exact", exact, BLUE),
        ("Lange 2024, published bound", 1 + lange_constant(chain()), ORANGE),
        ("Zhao et al. 2017, published bound", 1 + zhao_constant(chain()), ORANGE),
    ]
    with canvas((8.6, 2.7)) as figure:
        axes = figure.add_axes((0.36, 0.06, 0.56, 0.74))
        places = range(len(rows))[::-1]
        axes.barh(places, [row[1] for row in rows], color=[row[2] for row in rows], height=0.58)
        for place, (_, value, colour) in zip(places, rows, strict=True):
            words = f"{value:.2f}  (odds times {np.exp(value):,.0f})"
            axes.text(value + 0.12, place, words, va="center", color=colour, fontsize=10)
        axes.set_yticks(places, [row[0] for row in rows], color=INK)
        axes.set_xlim(0, 16)
        _bare(axes, keep_y=True)
        figure.text(
            0.012, 0.9, "What an ε = 1 count of active minutes reveals about one of them",
            fontsize=11.5, fontweight="bold",
        )  # fmt: skip
    return figure


def growth() -> "Figure":
    """Draw the leakage of all 1-DP algorithms against the length of the series."""
    lengths = list(range(1, 16))
    alone = [1.0]  # a single record has no neighbour to tell on it
    values = alone + [ut.leakage(ut.PureDP(1.0), chain(n)).upper for n in lengths[1:]]
    forever = ut.leakage(ut.PureDP(1.0), chain()).upper
    with canvas((8.6, 3.9)) as figure:
        axes = figure.add_axes((0.07, 0.15, 0.66, 0.7))
        axes.axhline(forever, color=BLUE, lw=1, ls=(0, (1, 2)))
        axes.plot(lengths, values, "o-", color=BLUE, lw=2.4, ms=5)
        axes.plot(lengths, [1.0] * 15, color=GREY, lw=2, ls=(0, (5, 2)))
        axes.set_xlim(0.5, 15)
        axes.set_ylim(0, 4)
        axes.set_xlabel("records in the series")
        over(axes, "leakage about one record, at DP level 1")
        for height, words, colour in (
            (forever, f"records that depend on each\nother: up to {forever:.2f}", BLUE),
            (1.0, "independent records:\nthe DP level itself", GREY),
        ):
            axes.text(15.3, height, words, color=colour, va="center", clip_on=False, fontsize=9.5)
    return figure


def adversaries() -> "Figure":
    """Draw three attackers on one series: the records they know, and their leakages."""
    rows = [
        ("informed", "knows all others", lambda place: place != 8),
        ("ignorant", "knows none", lambda place: False),
        ("any", "knows whichever are worst", lambda place: place in (0, 16)),
    ]
    with canvas((8.6, 3.0)) as figure:
        axes = figure.add_axes((0.005, 0.02, 0.99, 0.84))
        for line, (name, words, knows) in enumerate(rows):
            height = 2 - line
            axes.text(0, height + 0.1, f'"{name}"', fontsize=10.5, fontweight="bold")
            axes.text(0, height - 0.22, words, fontsize=9.5, color=GREY)
            for place in range(17):
                colour = ORANGE if place == 8 else INK if knows(place) else "none"
                axes.plot(
                    5.0 + 0.5 * place, height, "o", ms=11, mfc=colour, mec=colour
                    if colour != "none" else GREY, mew=1.4,
                )  # fmt: skip
            leak = ut.leakage(ut.PureDP(1.0), chain(), against=name).upper
            axes.text(13.6, height, f"{leak:.4f}", va="center", color=BLUE, fontsize=11)
        axes.text(9.0, 2.62, "target", color=ORANGE, ha="center", fontsize=9.5)
        axes.text(13.6, 2.62, "leakage at ε = 1", color=BLUE, ha="left", fontsize=9.5)
        axes.text(5.0, 2.62, "filled: known", color=INK, ha="left", fontsize=9.5)
        axes.set_xlim(-0.1, 16.6)
        axes.set_ylim(-0.5, 2.9)
        _bare(axes)
    return figure


def exchange() -> "Figure":
    """Draw the leakage against the DP level, with the two ways to read it."""
    from undertow.figures.curves import Mark, draw_leakage, leakage_curves

    curves = leakage_curves(chain(), [0.01, 0.125, *np.linspace(0.25, 3, 12)])
    spend = ut.dp_budget(chain(), limit=1.0)
    leak = ut.leakage(ut.PureDP(1.0), chain()).upper
    marks = [
        Mark(1.0, leak, f"spend 1, leak {leak:.2f}"),
        Mark(spend, 1.0, f"to leak 1, spend {spend:.4f}"),
    ]
    return draw_leakage(curves, marks)


def certificates() -> "Figure":
    """Draw certified intervals: attained from below, proved from above."""
    rng = np.random.default_rng(7)
    edges = [(int(rng.integers(max(0, i - 20), i)), i) for i in range(1, 200)]
    tables = {i: [[0.9, 0.1], [0.3, 0.7]] for i in range(1, 200)}
    tree = ut.BayesianNetwork(edges, {0: [0.75, 0.25], **tables})
    cases = [
        ("a chain, any 0.25-DP algorithm", ut.leakage(ut.PureDP(0.25), chain())),
        ("a tree of 200 people, 0.05-DP", ut.leakage(ut.PureDP(0.05), tree)),
        (
            "a chain, any (1, 1e-6)-DP algorithm",
            ut.leakage(ut.ApproximateDP(1.0, 1e-6), chain(), delta=2e-5),
        ),
    ]
    with canvas((8.6, 2.9)) as figure:
        axes = figure.add_axes((0.34, 0.18, 0.63, 0.66))
        for place, (_, leak) in enumerate(cases[::-1]):
            axes.plot([leak.lower, leak.upper], [place, place], color=BLUE, lw=5, alpha=0.45)
            axes.plot(leak.lower, place, ">", color=GREEN, ms=9)
            axes.plot(leak.upper, place, "<", color=BLUE, ms=9)
            words = f"{leak.lower:.3f} to {leak.upper:.3f}"
            axes.text(leak.upper + 0.12, place, words, va="center", fontsize=9.5, color=INK)
        axes.axvline(1.0, color=RED, lw=1.2, ls=(0, (4, 2)))
        axes.text(1.03, 2.62, "limit 1", color=RED, fontsize=9.5)
        axes.text(1.9, 2.62, "▶ attained by an attack", color=GREEN, fontsize=9.5)
        axes.text(3.55, 2.62, "◀ proved", color=BLUE, fontsize=9.5)
        axes.set_yticks(range(3), [name for name, _ in cases[::-1]], color=INK)
        axes.set_xlim(0, 4.7)
        axes.set_ylim(-0.5, 2.5)
        axes.set_xlabel("leakage about one record")
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
    return figure


def odds() -> "Figure":
    """Draw the largest probability after a release against the probability before."""
    before = np.linspace(0, 1, 101)
    with canvas((8.6, 4.2)) as figure:
        axes = figure.add_axes((0.075, 0.14, 0.5, 0.76))
        axes.plot(before, before, color=GREY, lw=1.2, ls=(0, (1, 2)))
        for leak, colour in ((0.1, GREY), (1.0, BLUE), (2.0, PURPLE), (4.0, ORANGE)):
            after = before * np.exp(leak) / (1 - before + before * np.exp(leak))
            axes.plot(before, after, color=colour, lw=2.4 if leak == 1 else 1.6)
            axes.text(
                1.03, {0.1: 0.06, 1.0: 0.35, 2.0: 0.64, 4.0: 0.93}[leak],
                f"leakage {leak:g}: odds times {np.exp(leak):.3g}\n"
                f"even before → at most {_up(np.exp(leak) / (1 + np.exp(leak)))}",
                color=colour, va="center", clip_on=False, fontsize=10,
            )  # fmt: skip
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("belief in a value before the release")
        over(axes, "largest belief afterwards")
    return figure


def units() -> "Figure":
    """Draw the DP budget against the number of protected records."""
    from undertow.diagnostics.windows import budget_by_window
    from undertow.figures.costs import draw_windows

    return draw_windows(budget_by_window(chain(288), limit=1.0, windows=(1, 3, 12, 48, 144)))


def weeks() -> "Figure":
    """Draw what records have spent after weekly releases and one about a quarter."""
    days = np.arange(364)
    spent = 0.2 + 0.05 * (days < 90)
    budget = ut.dp_budget(chain(), limit=1.0)
    with canvas((8.6, 3.2)) as figure:
        axes = figure.add_axes((0.075, 0.18, 0.9, 0.68))
        axes.fill_between(days, 0, 0.2, color=BLUE, alpha=0.55, lw=0)
        axes.fill_between(days, 0.2, spent, color=ORANGE, alpha=0.75, lw=0, where=days < 90)
        for week in range(1, 52):
            axes.plot([7 * week] * 2, [0, 0.2], color="#ffffff", lw=0.8)
        axes.axhline(budget, color=RED, lw=1.3, ls=(0, (4, 2)))
        axes.text(363, budget + 0.006, f"budget {budget:.4f}", color=RED, ha="right", fontsize=9.5)
        axes.text(96, 0.222, "one release about the first quarter", color=ORANGE, fontsize=9.5)
        axes.text(150, 0.095, "52 weekly releases of level 0.2", color=INK, fontsize=10)
        axes.set_xlim(0, 364)
        axes.set_ylim(0, 0.3)
        axes.set_xlabel("day of the year")
        over(axes, "DP level that a record of that day has spent")
    return figure


def renewals() -> "Figure":
    """Draw the leakage of a renewing budget, by persistence."""
    from undertow.diagnostics.windows import by_persistence
    from undertow.figures.costs import draw_renewals

    kept = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    return draw_renewals(by_persistence(levels=(0.5, 1.0, 2.0), persistences=kept, limit=1.0))


def sleep() -> "Figure":
    """Draw a simulated night of sleep stages."""
    stages = ("wake", "N1", "N2", "N3", "REM")
    kept = ut.MarkovChain(SLEEP, states=stages)
    night = [stages.index(stage) for stage in kept.simulate(960, seed=3)]
    with canvas((8.6, 2.9)) as figure:
        axes = figure.add_axes((0.075, 0.18, 0.9, 0.68))
        axes.step(np.arange(960) / 120, night, color=BLUE, lw=1.3, where="post")
        axes.set_yticks(range(5), stages, color=INK)
        axes.set_ylim(4.4, -0.4)
        axes.set_xlim(0, 8)
        axes.set_xlabel("hours")
        over(axes, "a simulated night: 960 records of thirty seconds")
    return figure


def meters() -> "Figure":
    """Draw two days of hourly readings, coloured by their states."""
    rng = np.random.default_rng(5)
    hours = np.arange(48)
    usual = 0.35 + 0.9 * np.exp(-(((hours % 24) - 19) ** 2) / 8)
    usual += 0.5 * np.exp(-(((hours % 24) - 8) ** 2) / 4)
    load = usual * rng.lognormal(0, 0.25, 48)
    state = np.digitize(load, (0.4, 1.0))
    with canvas((8.6, 3.2)) as figure:
        axes = figure.add_axes((0.075, 0.18, 0.78, 0.68))
        colours = np.array([GREY, BLUE, ORANGE])[state]
        axes.bar(hours, load, color=colours, width=0.85)
        for limit in (0.4, 1.0):
            axes.axhline(limit, color=INK, lw=0.9, ls=(0, (1, 2)))
        for height, words, colour in (
            (0.2, "low", GREY), (0.7, "normal", BLUE), (1.25, "high", ORANGE),
        ):  # fmt: skip
            axes.text(48.5, height, words, color=colour, clip_on=False, va="center")
        axes.set_xlim(-0.6, 47.6)
        axes.set_xlabel("hour")
        over(axes, "kWh in the hour (simulated)")
    return figure


def family() -> "Figure":
    """Draw the leakage of a count in a family against the number of children."""
    sizes = (0, 1, 2, 3, 4)
    values = []
    for children in sizes:
        parents = {f"child {i}": ("father", "mother") for i in range(children)} or {
            "father": (None, None), "mother": (None, None)
        }  # fmt: skip
        if not children:
            values.append(1.0)
            continue
        model = ut.Pedigree(parents, allele_frequency=0.5)
        values.append(ut.leakage(ut.Laplace(ut.Count("BB"), scale=1.0), model).upper)
    with canvas((8.6, 3.4)) as figure:
        axes = figure.add_axes((0.075, 0.16, 0.62, 0.7))
        axes.plot(sizes, [2 + n for n in sizes], color=GREY, ls=(0, (5, 2)), lw=1.6)
        axes.plot(sizes, values, "o-", color=BLUE, lw=2.4, ms=6)
        for size, value in zip(sizes, values, strict=True):
            axes.annotate(f"{value:.2f}", (size, value), (6, -12), textcoords="offset points")
        axes.set_xticks(sizes)
        axes.set_xlim(-0.2, 4.3)
        axes.set_ylim(0, 6.6)
        axes.set_xlabel("children of two parents")
        over(axes, "leakage about one person, at DP level 1")
        axes.text(4.45, 6, "if nothing were known:\none level each", color=GREY, va="center")
        axes.text(4.45, values[-1] - 0.3, "by Mendel's laws", color=BLUE, va="center")
    return figure


def flips() -> "Figure":
    """Draw a series and its flipped output."""
    home = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=("rest", "move"), length=1000)
    plan = ut.calibrate(ut.Series(), home, limit=4.0)
    truth = home.simulate(60, seed=11)
    shown = ut.sanitize(plan, list(truth), insecure_seed=4)
    with canvas((8.6, 1.9)) as figure:
        axes = figure.add_axes((0.1, 0.16, 0.88, 0.62))
        for height, series in ((1, truth), (0, shown)):
            for place, (state, real) in enumerate(zip(series, truth, strict=True)):
                colour = BLUE if state == "move" else PALE
                edge = RED if state != real else "none"
                axes.bar(
                    place, 0.62, bottom=height - 0.31, width=0.86, color=colour, ec=edge, lw=1.6
                )
        axes.set_yticks((1, 0), ("truth", "shown"), color=INK)
        axes.set_xlim(-0.7, 59.7)
        axes.set_ylim(-0.5, 1.5)
        _bare(axes, keep_y=True)
        figure.text(0.1, 0.86, "dark: move, light: rest; framed: flipped", color=GREY, fontsize=9.5)
    return figure


def audits() -> "Figure":
    """Draw two audits: the planned noise, and noise for independent records."""
    from dataclasses import replace

    plan = ut.calibrate(ut.Count("active"), chain(), limit=1.0)
    cheap = replace(plan, mechanism=ut.DiscreteLaplace(ut.Count("active"), 1.0))
    rows = [
        ("the plan: scale 3.99", ut.audit(plan, draws=5000, seed=1)),
        ("plain DP: scale 1", ut.audit(cheap, draws=5000, seed=1)),
    ]
    with canvas((8.6, 2.2)) as figure:
        axes = figure.add_axes((0.24, 0.26, 0.72, 0.5))
        for place, (_, found) in enumerate(rows[::-1]):
            colour = RED if found.verdict == "refuted" else GREEN
            axes.plot([0, found.lower], [place, place], color=colour, lw=7, solid_capstyle="butt")
            words = f"at least {found.lower:.2f}: {found.verdict}"
            axes.text(max(found.lower, 1.0) + 0.06, place, words, va="center", color=colour)
        axes.axvline(1.0, color=INK, lw=1.3, ls=(0, (4, 2)))
        axes.text(1.0, 1.62, "guaranteed: at most 1", ha="center", fontsize=9.5)
        axes.set_yticks((0, 1), [name for name, _ in rows[::-1]], color=INK)
        axes.set_xlim(0, 4)
        axes.set_ylim(-0.6, 1.5)
        axes.set_xlabel("leakage, from 5,000 runs of the release code (95% confidence)")
    return figure


SLEEP = (
    (0.92, 0.05, 0.01, 0.01, 0.01),
    (0.06, 0.72, 0.18, 0.01, 0.03),
    (0.01, 0.02, 0.93, 0.03, 0.01),
    (0.01, 0.01, 0.04, 0.93, 0.01),
    (0.02, 0.03, 0.01, 0.01, 0.93),
)
FIGURES: dict[str, Callable[[], "Figure"]] = {
    made.__name__: made
    for made in (
        bars, growth, adversaries, exchange, certificates, odds, units, weeks, renewals,
        sleep, meters, family, flips, audits,
    )
}  # fmt: skip


def _up(share: float) -> str:
    """Return a share in percent, rounded upwards as every number about a guarantee is."""
    return f"{np.ceil(1000 * share) / 10:.1f}%"


def _bare(axes: "Axes", keep_y: bool = False) -> None:
    """Remove the frame of the axes."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([])
    axes.tick_params(left=False)
    if not keep_y:
        axes.set_yticks([])


def in_colours(drawing: str, dark: bool) -> str:
    """Return a drawing without a background, in the colours of one theme."""
    drawing = _BACKGROUND.sub(r"\1none", drawing)
    drawing = drawing.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    if dark:
        for light, other in DARK.items():
            drawing = re.sub(re.escape(light), other, drawing, flags=re.IGNORECASE)
    return drawing


def draw_all(app: Sphinx) -> None:
    """Draw the figures that are missing or were drawn by other code."""
    code = Path(__file__).read_bytes() + ut.__version__.encode()
    stamp = hashlib.sha256(code).hexdigest()
    kept = DRAWN / "stamp"
    if kept.exists() and kept.read_text() == stamp:
        return
    DRAWN.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        drawing = figure_bytes(draw(), "svg").decode()
        for theme in ("light", "dark"):
            (DRAWN / f"{name}-{theme}.svg").write_text(in_colours(drawing, theme == "dark"))
    kept.write_text(stamp)


class Drawn(SphinxDirective):
    """A figure of this file by name, with an alternative text and a caption."""

    required_arguments = 1
    has_content = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Return a figure of two images, of which a reader's theme shows one."""
        name = self.arguments[0]
        if name not in FIGURES:
            raise self.error(f"no figure {name!r} in docs/figures.py")
        if "alt" not in self.options:
            raise self.error(f"figure {name!r} needs :alt:")
        figure = nodes.figure()
        for theme in ("light", "dark"):
            uri = f"/_generated/figures/{name}-{theme}.svg"
            image = nodes.image(uri=uri, alt=self.options["alt"], classes=[f"only-{theme}"])
            image["width"] = "100%"
            figure += image
        if self.content:
            caption = nodes.caption()
            caption += self.parse_text_to_nodes("\n".join(self.content))[0].children
            figure += caption
        return [figure]


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw before pages are read, and offer the directive ``drawn``."""
    app.connect("builder-inited", draw_all)
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
