"""State expressions in one form, so that two can be compared: parsed, and written again.

``STEPS>(0)`` and ``steps > 0.0`` are the same rule. White space, the case of keywords, redundant
brackets and the spelling of numbers and signs do not count; nothing is rearranged.
"""

from collections.abc import Callable
from typing import NamedTuple

from undertow.data.tokens import Token, columns_of, is_keyword, tokens_of
from undertow.errors import InvalidInput

__all__ = ["PLACEHOLDER", "normalised"]

PLACEHOLDER = "value"
"""Placeholder of the value column in a normalised expression."""

_OR, _AND, _NOT, _COMPARED, _SUM, _PRODUCT, _SIGN, _CAST, _ATOM = range(1, 10)
"""Precedence of operators: an operand of lower precedence stands in brackets."""

_SIGNS = {"==": "=", "!=": "<>"}
_TYPES = {
    **dict.fromkeys(("integer", "int", "bigint", "smallint"), "integer"),
    **dict.fromkeys(("double", "float", "real", "numeric", "decimal"), "double"),
    **dict.fromkeys(("text", "varchar", "char", "string"), "text"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
}


class _Part(NamedTuple):
    """A part of an expression as it is written, and how tightly it holds together."""

    text: str
    level: int

    def within(self, level: int) -> str:
        """Return the part as an operand of something that holds together as tightly as said."""
        return self.text if self.level >= level else f"({self.text})"


def normalised(text: str, value: str | None = None) -> str:
    """Return an expression that `undertow.data.sql.evaluate` has read, in one form.

    The column ``value``, by default the only one that is named, becomes `PLACEHOLDER`; another
    column of that name is quoted.

    >>> normalised("((Steps>0))  AND NOT(mood IN ('a','b'))", "Steps")
    "value > 0 and not mood in ('a', 'b')"
    >>> normalised("kwh>=0.50") == normalised("(kW >= .5)")
    True
    """
    named = columns_of(text)
    if value is None and len(named) == 1:
        value = named[0]
    return _Writer(tokens_of(text), value).either().text


class _Writer:
    """A recursive descent through the grammar of `undertow.data.sql` that writes what it reads."""

    def __init__(self, tokens: list[Token], value: str | None) -> None:
        self.tokens, self.value, self.place = tokens, value, 0

    def word(self, *wanted: str) -> str | None:
        kind, text = self.tokens[self.place]
        if kind in ("word", "sign") and text.lower() in wanted:
            self.place += 1
            return text.lower()
        return None

    def chain(
        self, below: Callable[[], _Part], level: int, *signs: str, tight: bool = False
    ) -> _Part:
        """Return operands joined from left to right; ``tight``: the right one needs brackets."""
        made = below()
        while sign := self.word(*signs):
            right = below().within(level + tight)
            made = _Part(f"{made.within(level)} {sign} {right}", level)
        return made

    def either(self) -> _Part:
        return self.chain(self.both, _OR, "or")

    def both(self) -> _Part:
        return self.chain(self.negated, _AND, "and")

    def negated(self) -> _Part:
        if self.word("not"):
            inner = self.negated()
            return _Part(f"not {inner.within(_NOT)}", _NOT)
        return self.compared()

    def compared(self) -> _Part:
        left = self.sum()
        shown = left.within(_SUM)
        sign = self.word("=", "==", "<>", "!=", "<", "<=", ">", ">=")
        if sign:
            right = self.sum().within(_SUM)
            return _Part(f"{shown} {_SIGNS.get(sign, sign)} {right}", _COMPARED)
        if self.word("is"):
            no = "not " if self.word("not") else ""
            self.word("null")
            return _Part(f"{shown} is {no}null", _COMPARED)
        no = "not " if self.word("not") else ""
        if self.word("between"):
            low = self.sum().within(_SUM)
            self.word("and")
            return _Part(f"{shown} {no}between {low} and {self.sum().within(_SUM)}", _COMPARED)
        if self.word("in"):
            self.word("(")
            return _Part(f"{shown} {no}in {self.listed(self.sum)}", _COMPARED)
        if self.word("like"):
            self.place += 1
            return _Part(f"{shown} {no}like {self.tokens[self.place - 1][1]}", _COMPARED)
        return left

    def sum(self) -> _Part:
        return self.chain(self.product, _SUM, "+", "-", tight=True)

    def product(self) -> _Part:
        return self.chain(self.signed, _PRODUCT, "*", "/", "%", tight=True)

    def signed(self) -> _Part:
        minus = False
        while sign := self.word("-", "+"):
            minus ^= sign == "-"
        made = self.atom()
        while self.word("::"):
            made = _Part(f"cast({made.text} as {self.type()})", _ATOM)
        return _Part(f"-{made.within(_CAST)}", _SIGN) if minus else made

    def type(self) -> str:
        _, text = self.tokens[self.place]
        self.place += 1
        self.word("precision")
        return _TYPES.get(text.lower(), text.lower())

    def atom(self) -> _Part:
        kind, text = self.tokens[self.place]
        self.place += 1
        lowered = text.lower()
        if kind == "number":
            return _Part(repr(float(text)).removesuffix(".0"), _ATOM)
        if kind == "text":
            return _Part(text, _ATOM)
        if kind == "column":
            return self.column(text)
        if text == "(":
            made = self.either()
            self.word(")")
            return made
        if lowered == "case":
            return self.case()
        called = self.tokens[self.place] == ("sign", "(")
        if lowered == "cast" and called:
            self.word("(")
            inner = self.either().text
            self.word("as")
            made = _Part(f"cast({inner} as {self.type()})", _ATOM)
            self.word(")")
            return made
        if lowered in ("true", "false", "null"):
            return _Part(lowered, _ATOM)
        if called and not is_keyword(text):
            self.word("(")
            return _Part(f"{lowered}{self.listed(self.either)}", _ATOM)
        return self.column(text)

    def listed(self, below: Callable[[], _Part]) -> str:
        """Return what stands in brackets, separated by commas; the first bracket is read."""
        parts = []
        while self.word(")") is None:
            if self.tokens[self.place][0] == "end":
                raise InvalidInput("the expression ends within a bracket")
            parts.append(below().text)
            self.word(",")
        return f"({', '.join(parts)})"

    def column(self, name: str) -> _Part:
        if name == self.value:
            return _Part(PLACEHOLDER, _ATOM)
        plain = name.isidentifier() and name != PLACEHOLDER and not is_keyword(name)
        return _Part(name if plain else f'"{name}"', _ATOM)

    def case(self) -> _Part:
        parts = ["case"]
        if self.tokens[self.place][1].lower() != "when":
            parts.append(self.either().text)
        while self.word("when"):
            asked = self.either().text
            self.word("then")
            parts.append(f"when {asked} then {self.either().text}")
        if self.word("else"):
            parts.append(f"else {self.either().text}")
        self.word("end")
        return _Part(" ".join([*parts, "end"]), _ATOM)
