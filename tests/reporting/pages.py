"""What the tests of reports share: plans, releases, and a reader of pages."""

import dataclasses
import math
from html.parser import HTMLParser
from typing import Any

import numpy as np

import undertow as ut
from undertow.releasing.request import Release
from undertow.reporting.report import Report

STATES = ("idle", "active")
P = [[0.9, 0.1], [0.3, 0.7]]
CHAIN = ut.MarkovChain(P, states=STATES)
TEN = ut.MarkovChain(P, states=STATES, length=10)
COUNT = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
IGNORANT = ut.calibrate(ut.Count("active"), TEN, limit=1.0, against="ignorant")
HISTOGRAM = ut.calibrate(ut.Histogram(), CHAIN, limit=1.0)
NUMBERS = {"idle": 1.0, "active": 9.0}
SUM = ut.calibrate(ut.Sum(0, 10, NUMBERS), CHAIN, limit=1.0)
MEAN = ut.calibrate(ut.Mean(0, 10, NUMBERS), TEN, limit=1.0)
LINEAR = ut.calibrate(
    ut.Linear(np.ones(10), spread=10.0, lower=0.0, values=NUMBERS), TEN, limit=1.0
)
PERSON = ut.calibrate(ut.Count("active"), TEN, limit=1.0, secret=ut.Person())
PLANS = {
    "count": COUNT, "ignorant": IGNORANT, "histogram": HISTOGRAM, "sum": SUM, "mean": MEAN,
    "linear": LINEAR, "person": PERSON,
}  # fmt: skip
RECORDS = ["idle", "active"] * 5
VOID = {"meta", "line", "path", "circle"}
ALIKE: list[list[Any]] = [
    ["active"] * 10,
    ["idle"] * 10,
    [None] * 10,
    ["no such state"] * 10,
    [[], {}, math.nan, "canary-5d1e", b"", 1, 2.5, object(), 1e300, "active"],
]


def told(plan=COUNT, records=RECORDS, **options) -> Report:
    return ut.release(plan, records, **options).report()


def grouped(plan, values, **fields) -> Report:
    """The report of a release per group; values are made up."""
    source, groups = "a diary study", tuple(values)
    sizes = (40 // len(groups),) * len(groups)
    out = Release(values, plan, "secure", 40, 4, "weeks", "e" * 64, source, groups, sizes)
    return Report.of(dataclasses.replace(out, **fields))


class Page(HTMLParser):
    """What stands in a page; fails on tags that are not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self):
        return " ".join(" ".join(self.words).split())
