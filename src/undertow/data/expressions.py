"""State expressions: a subset of SQL evaluated on each row, in which no value can fail.

The expression sees one row at a time and gives a result for every row, so that one record moves
one state and no message depends on a value. What fails, fails by the form of the expression and
the types of the columns. The rules:

- Numbers are double precision. What is no number (0 / 0, the root of -1, a division by 0, text
  that does not read as a number) is missing.
- A column is read as what it is compared with: CSV fields and columns of mixed Python objects are
  *loose*, they become numbers beside a number and text beside text. Two loose columns need a CAST.
- Missing values behave as in SQL: ``x > 0`` is missing where ``x`` is.
- Functions of many rows (``avg``, ``row_number``) do not exist: they would let one record change
  the states of all others.
"""

import operator
import re
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "NUMBER",
    "PLACEHOLDER",
    "TEXT",
    "TRUTH",
    "Planes",
    "Token",
    "columns_of",
    "evaluate",
    "is_keyword",
    "no_value",
    "normalised",
    "tokens_of",
]


Token = tuple[str, str]
"""What a piece is (number, text, column, word, sign or end), and the piece."""

_LONGEST = 1000
"""Words and signs of an expression; beyond it the plan of a query gets slow."""
_LARGEST = 20_000
"""Characters of an expression."""
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"[^"]+"|`[^`]+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|==|<=|>=|::|[-+*/%=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORD = re.compile(
    "and|as|between|case|cast|else|end|false|in|is|like|not|null|or|then|true|when"
)


def is_keyword(word: str) -> bool:
    """Return whether a word is never the name of a column, unless it is quoted.

    >>> is_keyword("And"), is_keyword("android")
    (True, False)
    """
    return _KEYWORD.fullmatch(word.lower()) is not None


def columns_of(text: str) -> list[str]:
    """Return the columns an expression names, in order, or say why it cannot be read.

    >>> columns_of("steps > 0 and upper(mood) <> 'LOW'")
    ['steps', 'mood']
    """
    tokens = tokens_of(text)
    names = []
    for place, (kind, value) in enumerate(tokens[:-1]):
        lowered, before = value.lower(), tokens[place - 1][1].lower() if place else ""
        called = tokens[place + 1] == ("sign", "(")
        typed = before in ("as", "::") or (lowered, before) == ("precision", "double")
        if kind == "column" or (
            kind == "word" and not is_keyword(value) and not called and not typed
        ):
            names.append(value)
    return list(dict.fromkeys(names))


def tokens_of(text: str) -> list[Token]:
    """Return the pieces of an expression in order, ("end", "") last.

    >>> tokens_of("x >= 'a'")
    [('word', 'x'), ('sign', '>='), ('text', "'a'"), ('end', '')]
    """
    if len(text) > _LARGEST:
        raise InvalidInput(f"the expression has more than {_LARGEST} characters; make it shorter")
    tokens: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise InvalidInput(
                f"the expression {text!r} cannot be read at character {place}; write SQL such as "
                "'steps > 0'"
            )
        kind, value = match.lastgroup, match[match.lastgroup]
        if kind == "quoted":
            kind, value = "column", value[1:-1]
        tokens.append((kind, value))
        place = match.end()
    if not tokens or len(tokens) > _LONGEST:
        found_words = "is empty" if not tokens else f"has more than {_LONGEST} words and signs"
        raise InvalidInput(f"the expression {found_words}; write SQL such as 'steps > 0'")
    return [*tokens, ("end", "")]


NUMBER, TEXT, TRUTH = "number", "text", "truth"
Planes = Mapping[str, "pl.Expr"]
"""Types that a value can be read as: expressions for number, text and truth where they apply."""

_DEEPEST = 40
"""Brackets inside brackets."""
_TYPES = {
    **dict.fromkeys(("integer", "int", "bigint", "smallint"), "whole"),
    **dict.fromkeys(("double", "float", "real", "numeric", "decimal"), NUMBER),
    **dict.fromkeys(("text", "varchar", "char", "string"), TEXT),
    **dict.fromkeys(("boolean", "bool"), TRUTH),
}
_COMPARED: dict[str, Callable[["pl.Expr", "pl.Expr"], "pl.Expr"]] = {
    **dict.fromkeys(("=", "=="), operator.eq),
    **dict.fromkeys(("<>", "!="), operator.ne),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(text: str, columns: Mapping[str, Planes]) -> tuple[list["pl.Expr"], Planes]:
    """Translate an expression into expressions of Polars.

    The first part is a list of columns to add to the frame, one after the other; the second says
    what the result can be read as. (A single nested expression would double at every level that
    needs a value twice.)

    Grammar: ``or and not``, comparisons, ``between``, ``in``, ``like``, ``is null``, arithmetic,
    ``case``, ``cast``, and the functions listed in the message for an unknown one. A name that is
    not in ``columns`` is refused. Cost: linear in the length of the expression.

    >>> import polars as pl
    >>> steps, made = evaluate("x > 0 and x < 9", {"x": {"number": pl.col("x").cast(pl.Float64)}})
    >>> frame = pl.DataFrame({"x": [-1, 5, None, 9]})
    >>> for step in steps:
    ...     frame = frame.with_columns(step)
    >>> frame.select(state=made["truth"])["state"].to_list()
    [False, True, None, False]
    """
    reader = _Reader(text, columns)
    planes = reader.read()
    return reader.steps, planes


class _Reader:
    """A recursive descent: each method reads one level of the grammar and returns its planes."""

    def __init__(self, text: str, columns: Mapping[str, Planes]) -> None:
        self.text, self.columns = text, columns
        self.tokens = tokens_of(text)
        self.place = self.depth = 0
        self.steps: list[pl.Expr] = []
        self.held: dict[str, Planes] = {}

    def read(self) -> Planes:
        planes = self.either()
        if self.place < len(self.tokens) - 1:
            self.stop("it goes on where it should end")
        return planes

    # --- tokens

    def word(self, *wanted: str) -> str | None:
        """Return the next word or sign and step over it, if it is one of those wanted."""
        kind, value = self.tokens[self.place]
        if kind in ("word", "sign") and value.lower() in wanted:
            self.place += 1
            return value.lower()
        return None

    def expect(self, wanted: str) -> None:
        if self.word(wanted) is None:
            self.stop(f"{wanted.upper()!r} is missing")

    def stop(self, reason: str) -> NoReturn:
        kind, value = self.tokens[self.place]
        where = "at its end" if kind == "end" else f"near {value!r}"
        raise InvalidInput(
            f"the expression {self.text!r} cannot be read {where}: {reason}; write SQL such as "
            "'steps > 0'"
        )

    def refuse(self, reason: str) -> NoReturn:
        raise InvalidInput(f"the expression {self.text!r} {reason}")

    # --- planes

    def hold(self, part: "pl.Expr") -> "pl.Expr":
        """Return a value as a column of its own, computed once however often it is used."""
        import polars as pl

        name = f"\0made {len(self.steps)}"
        self.steps.append(part.alias(name))
        return pl.col(name)

    def number(self, planes: "pl.Expr") -> Planes:
        """Return a number, missing where it is none: Polars would sort NaN above infinity."""
        return {NUMBER: self.hold(self.hold(planes).fill_nan(None))}

    def take(self, planes: Planes, plane: str) -> "pl.Expr":
        if plane not in planes:
            self.refuse(f"needs a {plane} where it has a {_words(planes)}")
        return planes[plane]

    def shared(self, *sides: Planes) -> str:
        """Return the one plane on which all sides can be compared."""
        common = [plane for plane in (NUMBER, TEXT, TRUTH) if all(plane in side for side in sides)]
        if not common:
            self.refuse(f"compares a {' with a '.join(map(_words, sides))}")
        if len(common) > 1:
            self.refuse(
                "compares values that could be numbers or text; say which with CAST(... AS "
                "DOUBLE) or CAST(... AS TEXT)"
            )
        return common[0]

    # --- the grammar

    def either(self) -> Planes:
        planes = self.both()
        while self.word("or"):
            other = self.both()
            planes = {TRUTH: self.hold(self.take(planes, TRUTH) | self.take(other, TRUTH))}
        return planes

    def both(self) -> Planes:
        planes = self.negated()
        while self.word("and"):
            other = self.negated()
            planes = {TRUTH: self.hold(self.take(planes, TRUTH) & self.take(other, TRUTH))}
        return planes

    def negated(self) -> Planes:
        flips = 0
        while self.word("not"):
            flips += 1
        planes = self.compared()
        return planes if not flips else {TRUTH: _flip(self.take(planes, TRUTH), flips % 2 == 1)}

    def compared(self) -> Planes:
        left = self.sum()
        sign = self.word(*_COMPARED)
        if sign:
            right = self.sum()
            plane = self.shared(left, right)
            if plane == TRUTH and sign not in ("=", "==", "<>", "!="):
                self.refuse("orders truth values; compare them with = or <>")
            return {TRUTH: _COMPARED[sign](left[plane], right[plane])}
        if self.word("is"):
            flip = self.word("not") is not None
            self.expect("null")
            whole = next(iter(left.values())) if len(left) == 1 else left[TEXT]
            missing = whole.is_null()
            if len(left) > 1:  # loose: there if any reading of it is
                missing = missing & left[NUMBER].is_null()
            return {TRUTH: _flip(missing, flip)}
        flip = self.word("not") is not None
        if self.word("between"):
            low = self.sum()
            self.expect("and")
            high = self.sum()
            plane = self.shared(left, low, high)
            value = self.hold(left[plane])
            inside = (value >= low[plane]) & (value <= high[plane])
            return {TRUTH: _flip(inside, flip)}
        if self.word("in"):
            return {TRUTH: _flip(self.among(left), flip)}
        if self.word("like"):
            return {TRUTH: _flip(self.like(left), flip)}
        if flip:
            self.stop("NOT must be followed by BETWEEN, IN or LIKE here")
        return left

    def among(self, left: Planes) -> "pl.Expr":
        self.expect("(")
        choices = [self.sum()]
        while self.word(","):
            choices.append(self.sum())
        self.expect(")")
        plane = self.shared(left, *choices)
        value = self.hold(left[plane])
        test = value == choices[0][plane]
        for choice in choices[1:]:
            test = self.hold(test | (value == choice[plane]))
        return test

    def like(self, left: Planes) -> "pl.Expr":
        kind, value = self.tokens[self.place]
        if kind != "text":
            self.stop("LIKE is followed by a text")
        self.place += 1
        signs = {"%": ".*", "_": "."}
        pattern = "".join(signs.get(c, re.escape(c)) for c in _plain(value))
        return self.take(left, TEXT).str.contains(f"(?s)^{pattern}$")

    def sum(self) -> Planes:
        planes = self.product()
        while sign := self.word("+", "-"):
            x, y = self.take(planes, NUMBER), self.take(self.product(), NUMBER)
            planes = self.number(x + y if sign == "+" else x - y)
        return planes

    def product(self) -> Planes:
        planes = self.signed()
        while sign := self.word("*", "/", "%"):
            x, y = self.take(planes, NUMBER), self.take(self.signed(), NUMBER)
            planes = self.number(x * y if sign == "*" else _divided(x, self.hold(y), sign))
        return planes

    def signed(self) -> Planes:
        flips = signs = 0
        while sign := self.word("-", "+"):
            signs += 1
            flips += sign == "-"
        planes = self.atom()
        while self.word("::"):
            planes = self.cast(planes)
        if not signs:
            return planes
        number = self.take(planes, NUMBER)
        return {NUMBER: -number if flips % 2 else number}

    def atom(self) -> Planes:
        import polars as pl

        kind, value = self.tokens[self.place]
        self.place += 1
        if kind == "number":
            return {NUMBER: pl.lit(float(value), dtype=pl.Float64)}
        if kind == "text":
            return {TEXT: pl.lit(_plain(value), dtype=pl.String)}
        if kind == "column":
            return self.column(value)
        lowered = value.lower()
        if kind == "word" and lowered in ("true", "false"):
            return {TRUTH: pl.lit(lowered == "true")}
        if kind == "word" and lowered == "null":
            return no_value()
        called = kind == "word" and self.tokens[self.place] == ("sign", "(")
        if value == "(" or lowered in ("case", "cast") or (called and not is_keyword(value)):
            return self.nested(lowered)
        if kind != "word" or is_keyword(value):
            self.place -= 1
            self.stop("a value, a column or a bracket is missing")
        return self.column(value)

    def nested(self, lowered: str) -> Planes:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.stop(f"it is nested more than {_DEEPEST} deep")
        if lowered == "case":
            planes = self.case()
        elif lowered == "(":
            planes = self.either()
            self.expect(")")
        elif lowered == "cast":
            self.expect("(")
            planes = self.either()
            self.expect("as")
            planes = self.cast(planes)
            self.expect(")")
        else:
            planes = self.function(lowered)
        self.depth -= 1
        return planes

    def column(self, name: str) -> Planes:
        if name not in self.columns:
            self.refuse(f"names a column {name!r} that is not there")
        if name not in self.held:
            planes = self.columns[name]
            self.held[name] = {plane: self.hold(part) for plane, part in planes.items()}
        return self.held[name]

    def cast(self, planes: Planes) -> Planes:
        """Return a value as another type, missing where it has no such value."""
        import polars as pl

        kind, value = self.tokens[self.place]
        to = _TYPES.get(value.lower()) if kind == "word" else None
        if to is None:
            self.stop(f"a type is missing: {', '.join(sorted(_TYPES))}")
        self.place += 1
        if value.lower() == "double":
            self.word("precision")
        if to == TEXT or (to == TRUTH and TRUTH in planes):
            return {to: self.take(planes, to)}
        if NUMBER in planes:
            number = planes[NUMBER]
        elif TEXT in planes:
            parsed = planes[TEXT].str.strip_chars().cast(pl.Float64, strict=False)
            number = self.number(parsed)[NUMBER]
        else:
            number = planes[TRUTH].cast(pl.Float64)
        if to == TRUTH:
            return {TRUTH: number != 0}
        if to == NUMBER:
            return {NUMBER: number}
        number = self.hold(number)
        return {NUMBER: self.hold(number.sign() * number.abs().floor())}

    def case(self) -> Planes:
        import polars as pl

        started = (
            self.tokens[self.place][0] == "word" and self.tokens[self.place][1].lower() == "when"
        )
        compared = None if started else self.either()
        conditions: list[pl.Expr] = []
        results: list[Planes] = []
        while self.word("when"):
            subject = self.either()
            if compared is None:
                conditions.append(self.take(subject, TRUTH))
            else:
                plane = self.shared(compared, subject)
                conditions.append(compared[plane] == subject[plane])
            self.expect("then")
            results.append(self.either())
        if not conditions:
            self.stop("CASE needs WHEN ... THEN ...")
        results.append(self.either() if self.word("else") else no_value())
        self.expect("end")
        conditions = [self.hold(condition) for condition in conditions]
        planes = {}
        for plane in self.common(results):
            chosen = results[-1][plane]
            for condition, result in zip(conditions[::-1], results[-2::-1], strict=True):
                chosen = pl.when(condition).then(result[plane]).otherwise(chosen)
            planes[plane] = self.hold(chosen)
        return planes

    def common(self, results: list[Planes]) -> list[str]:
        """Return the planes that all results have."""
        planes = [plane for plane in (NUMBER, TEXT, TRUTH) if all(plane in r for r in results)]
        if not planes:
            self.refuse(f"gives a {' or a '.join(dict.fromkeys(map(_words, results)))}")
        return planes

    def function(self, name: str) -> Planes:
        import polars as pl

        self.expect("(")
        arguments: list[Planes] = (
            [] if self.tokens[self.place] == ("sign", ")") else [self.either()]
        )
        while self.word(","):
            arguments.append(self.either())
        self.expect(")")
        if name in _OF_NUMBERS or name in _OF_TEXT:
            if len(arguments) != 1:
                self.refuse(f"gives {name} {len(arguments)} values; it takes one")
            if name in _OF_NUMBERS:
                return self.number(_OF_NUMBERS[name](self.hold(self.take(arguments[0], NUMBER))))
            part = _OF_TEXT[name](self.take(arguments[0], TEXT))
            return {NUMBER: part.cast(pl.Float64)} if name == "length" else {TEXT: part}
        if name not in ("coalesce", "nullif", "least", "greatest"):
            names = sorted([*_OF_NUMBERS, *_OF_TEXT, "coalesce", "nullif", "least", "greatest"])
            self.refuse(
                f"calls {name!r}, which is not among the functions of one row: {', '.join(names)}"
            )
        if not arguments or (name == "nullif" and len(arguments) != 2):
            self.refuse(f"gives {name} {len(arguments)} values")
        if name == "coalesce":
            return {
                plane: self.hold(pl.coalesce(*(g[plane] for g in arguments)))
                for plane in self.common(arguments)
            }
        if name == "nullif":
            plane = self.shared(*arguments)
            same = self.hold(arguments[0][plane] == arguments[1][plane])
            return {
                p: self.hold(pl.when(~same | same.is_null()).then(e))
                for p, e in arguments[0].items()
            }
        numbers = [self.take(g, NUMBER) for g in arguments]
        chosen = pl.min_horizontal if name == "least" else pl.max_horizontal
        return {NUMBER: self.hold(chosen(*numbers))}


_OF_NUMBERS: dict[str, Callable[["pl.Expr"], "pl.Expr"]] = {
    **{name: methodcaller(name) for name in ("abs", "ceil", "exp", "floor", "sqrt")},
    "ln": methodcaller("log"),
    "round": lambda x: x.sign() * (x.abs() + 0.5).floor(),
}
_OF_TEXT: dict[str, Callable[["pl.Expr"], "pl.Expr"]] = {
    "length": lambda x: x.str.len_chars(),
    "lower": lambda x: x.str.to_lowercase(),
    "trim": lambda x: x.str.strip_chars(),
    "upper": lambda x: x.str.to_uppercase(),
}


def _words(planes: Planes) -> str:
    kinds = {NUMBER: "number", TEXT: "text", TRUTH: "truth value"}
    return kinds[next(iter(planes))] if len(planes) == 1 else "value of any kind"


def _plain(quoted: str) -> str:
    return quoted[1:-1].replace("''", "'")


def no_value() -> Planes:
    """Return a value that is missing in every reading."""
    import polars as pl

    kinds = {NUMBER: pl.Float64, TEXT: pl.String, TRUTH: pl.Boolean}
    return {plane: pl.lit(None, dtype=kind) for plane, kind in kinds.items()}


def _flip(truth: "pl.Expr", flip: bool) -> "pl.Expr":
    return ~truth if flip else truth


def _divided(x: "pl.Expr", y: "pl.Expr", sign: str) -> "pl.Expr":
    """Return the quotient, or the remainder with the sign of ``x``; missing if ``y`` is 0."""
    import polars as pl

    quotient = x / y
    if sign == "%":  # beyond 2^53 whole parts a double has no remainder left
        quotient = pl.when(quotient.abs() < 2.0**53).then(x.sign() * (x.abs() % y.abs()))
    return pl.when(y != 0).then(quotient)


PLACEHOLDER = "value"
"""Placeholder of the value column in a normalised expression."""

_OR, _AND, _NOT, _COMPARED_EXPRESSIONS, _SUM, _PRODUCT, _SIGN, _CAST, _ATOM = range(1, 10)
"""Precedence of operators: an operand of lower precedence stands in brackets."""

_SIGNS = {"==": "=", "!=": "<>"}
_TYPES_EXPRESSIONS = {
    **dict.fromkeys(("integer", "int", "bigint", "smallint"), "integer"),
    **dict.fromkeys(("double", "float", "real", "numeric", "decimal"), "double"),
    **dict.fromkeys(("text", "varchar", "char", "string"), "text"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
}


class _Part(NamedTuple):
    """A written part of an expression, and its precedence."""

    text: str
    level: int

    def within(self, level: int) -> str:
        """Return the part as an operand of an operator of this precedence."""
        return self.text if self.level >= level else f"({self.text})"


def normalised(text: str, value: str | None = None) -> str:
    """Return an expression that `undertow.data.expressions.evaluate` has read, in one form.

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
    """A recursive descent through the grammar of state expressions that writes what it reads."""

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
        parts = below()
        while sign := self.word(*signs):
            right = below().within(level + tight)
            parts = _Part(f"{parts.within(level)} {sign} {right}", level)
        return parts

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
            return _Part(f"{shown} {_SIGNS.get(sign, sign)} {right}", _COMPARED_EXPRESSIONS)
        if self.word("is"):
            no = "not " if self.word("not") else ""
            self.word("null")
            return _Part(f"{shown} is {no}null", _COMPARED_EXPRESSIONS)
        no = "not " if self.word("not") else ""
        if self.word("between"):
            low = self.sum().within(_SUM)
            self.word("and")
            return _Part(
                f"{shown} {no}between {low} and {self.sum().within(_SUM)}", _COMPARED_EXPRESSIONS
            )
        if self.word("in"):
            self.word("(")
            return _Part(f"{shown} {no}in {self.listed(self.sum)}", _COMPARED_EXPRESSIONS)
        if self.word("like"):
            self.place += 1
            return _Part(
                f"{shown} {no}like {self.tokens[self.place - 1][1]}", _COMPARED_EXPRESSIONS
            )
        return left

    def sum(self) -> _Part:
        return self.chain(self.product, _SUM, "+", "-", tight=True)

    def product(self) -> _Part:
        return self.chain(self.signed, _PRODUCT, "*", "/", "%", tight=True)

    def signed(self) -> _Part:
        minus = False
        while sign := self.word("-", "+"):
            minus ^= sign == "-"
        term = self.atom()
        while self.word("::"):
            term = _Part(f"cast({term.text} as {self.type()})", _ATOM)
        return _Part(f"-{term.within(_CAST)}", _SIGN) if minus else term

    def type(self) -> str:
        _, text = self.tokens[self.place]
        self.place += 1
        self.word("precision")
        return _TYPES_EXPRESSIONS.get(text.lower(), text.lower())

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
            term = self.either()
            self.word(")")
            return term
        if lowered == "case":
            return self.case()
        called = self.tokens[self.place] == ("sign", "(")
        if lowered == "cast" and called:
            self.word("(")
            inner = self.either().text
            self.word("as")
            term = _Part(f"cast({inner} as {self.type()})", _ATOM)
            self.word(")")
            return term
        if lowered in ("true", "false", "null"):
            return _Part(lowered, _ATOM)
        if called and not is_keyword(text):
            self.word("(")
            return _Part(f"{lowered}{self.listed(self.either)}", _ATOM)
        return self.column(text)

    def listed(self, below: Callable[[], _Part]) -> str:
        """Return the comma-separated items in brackets; the opening bracket is read already."""
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
            condition = self.either().text
            self.word("then")
            parts.append(f"when {condition} then {self.either().text}")
        if self.word("else"):
            parts.append(f"else {self.either().text}")
        self.word("end")
        return _Part(" ".join([*parts, "end"]), _ATOM)
