"""A question that many tests ask is answered once in a process.

Leakages are functions of what was asked, and plans ask a hundred of them. A test that changes what
the library does, by ``monkeypatch``, or that wants to see it work, by ``anew``, gets its answers
anew.
"""

from collections import OrderedDict

MOST = 20_000
"""Answers that are kept (memory: a kilobyte each)."""


class Remembered:
    """A function of frozen values that keeps its answers while nothing in the library changes."""

    def __init__(self, function):
        self.function, self.kept = function, OrderedDict()
        self.begin(True, None)

    def begin(self, anew, changes):
        """Begin a test: whether it wants to see the work done, and what it changes, if anything."""
        self.anew, self.changes = anew, changes

    def __call__(self, mechanism, model, against, more, question):
        wanted = (mechanism, model, against, more, question)
        if self.anew or (self.changes is not None and self.changes._setattr):
            return self.function(*wanted)
        # 1, 1.0 and True are equal, and are different names of states; models of one law are
        # equal, and what was tested of them stands in the answer
        tested = [(check.name, check.outcome) for check in getattr(model, "checks", ())]
        names = repr((mechanism, getattr(model, "states", None), against, tested))
        try:
            key = (mechanism, model, against, tuple(sorted(more.items())), question, names)
            found = self.kept.get(key)
        except TypeError:  # something that has no hash
            return self.function(*wanted)
        if found is None:
            found = self.function(*wanted)
            if found.unfinished:  # what it says depends on the effort that was left
                return found
            self.kept[key] = found
            if len(self.kept) > MOST:
                self.kept.popitem(last=False)
        return found


class Asked:
    """What scipy asks of each option of each linear program: whether HiGHS takes such a value.

    Seven questions that take longer than most of the programs of the tests.
    """

    def __init__(self, function):
        self.function, self.kept = function, {}

    def __call__(self, solver, option, value):
        key = (option, type(value), value)
        if key not in self.kept:
            self.kept[key] = self.function(solver, option, value)
        return self.kept[key]
