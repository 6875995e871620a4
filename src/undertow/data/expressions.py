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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
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
    **dict.fromkeys(("integer", "int", "bigint", "smallint"), "integer"),
    **dict.fromkeys(("double", "float", "real", "numeric", "decimal"), "double"),
    **dict.fromkeys(("text", "varchar", "char", "string"), "text"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
}
"""Types of a cast, each with its first name."""
_COMPARED: dict[str, Callable[["pl.Expr", "pl.Expr"], "pl.Expr"]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS = {**{sign: sign for sign in _COMPARED}, "==": "=", "!=": "<>"}
"""Signs of comparisons, each in its first spelling."""


class _Node(NamedTuple):
    """A part of an expression: its kind, the words or signs in it, and the parts that it joins.

    A chain of operators from left to right is one node with a sign between each two parts, so that
    the depth of a tree is that of its brackets.
    """

    kind: str
    words: tuple[str, ...] = ()
    parts: tuple["_Node", ...] = ()


class _Parser:
    """A recursive descent: each method reads one level of the grammar and returns its node."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, tokens_of(text)
        self.place = self.depth = 0

    def read(self) -> _Node:
        node = self.either()
        if self.place < len(self.tokens) - 1:
            self.stop("it goes on where it should end")
        return node

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

    def chain(self, below: Callable[[], _Node], kind: str, *signs: str) -> _Node:
        """Return operands with one of the signs between each two, a single operand as it is."""
        parts, words = [below()], []
        while sign := self.word(*signs):
            words.append(sign)
            parts.append(below())
        return _Node(kind, tuple(words), tuple(parts)) if words else parts[0]

    def listed(self) -> Iterator[_Node]:
        """Yield the expressions of a list, none of an empty one, up to its closing bracket."""
        if self.word(")"):
            return
        yield self.either()
        while self.word(","):
            yield self.either()
        self.expect(")")

    def either(self) -> _Node:
        return self.chain(self.both, "or", "or")

    def both(self) -> _Node:
        return self.chain(self.negated, "and", "and")

    def negated(self) -> _Node:
        words = []
        while word := self.word("not"):
            words.append(word)
        node = self.compared()
        return _Node("not", tuple(words), (node,)) if words else node

    def compared(self) -> _Node:
        left = self.sum()
        sign = self.word(*_SIGNS)
        if sign:
            return _Node("compare", (_SIGNS[sign],), (left, self.sum()))
        if self.word("is"):
            no = ("not",) if self.word("not") else ()
            self.expect("null")
            return _Node("null", no, (left,))
        no = ("not",) if self.word("not") else ()
        if self.word("between"):
            low = self.sum()
            self.expect("and")
            return _Node("between", no, (left, low, self.sum()))
        if self.word("in"):
            self.expect("(")
            choices = [self.sum()]
            while self.word(","):
                choices.append(self.sum())
            self.expect(")")
            return _Node("in", no, (left, *choices))
        if self.word("like"):
            kind, value = self.tokens[self.place]
            if kind != "text":
                self.stop("LIKE is followed by a text")
            self.place += 1
            return _Node("like", no, (left, _Node("text", (value,))))
        if no:
            self.stop("NOT must be followed by BETWEEN, IN or LIKE here")
        return left

    def sum(self) -> _Node:
        return self.chain(self.product, "sum", "+", "-")

    def product(self) -> _Node:
        return self.chain(self.signed, "product", "*", "/", "%")

    def signed(self) -> _Node:
        signs = []
        while sign := self.word("-", "+"):
            signs.append(sign)
        node, types = self.atom(), []
        while self.word("::"):
            types.append(self.type())
        node = _Node("cast", tuple(types), (node,)) if types else node
        return _Node("sign", ("-",) * (signs.count("-") % 2), (node,)) if signs else node

    def atom(self) -> _Node:
        kind, value = self.tokens[self.place]
        self.place += 1
        if kind in ("number", "text", "column"):
            return _Node(kind, (value,))
        lowered = value.lower()
        if kind == "word" and lowered in ("true", "false", "null"):
            return _Node("constant", (lowered,))
        called = kind == "word" and self.tokens[self.place] == ("sign", "(")
        if value == "(" or lowered in ("case", "cast") or (called and not is_keyword(value)):
            return self.nested(lowered)
        if kind != "word" or is_keyword(value):
            self.place -= 1
            self.stop("a value, a column or a bracket is missing")
        return _Node("column", (value,))

    def nested(self, lowered: str) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.stop(f"it is nested more than {_DEEPEST} deep")
        if lowered == "case":
            node = self.case()
        elif lowered == "(":
            node = self.either()
            self.expect(")")
        elif lowered == "cast":
            self.expect("(")
            node = self.either()
            self.expect("as")
            node = _Node("cast", (self.type(),), (node,))
            self.expect(")")
        else:
            self.expect("(")
            node = _Node("call", (lowered,), tuple(self.listed()))
        self.depth -= 1
        return node

    def type(self) -> str:
        """Return the first name of the next type."""
        kind, value = self.tokens[self.place]
        to = _TYPES.get(value.lower()) if kind == "word" else None
        if to is None:
            self.stop(f"a type is missing: {', '.join(sorted(_TYPES))}")
        self.place += 1
        if value.lower() == "double":
            self.word("precision")
        return to

    def case(self) -> _Node:
        """Read a case: the subject where there is one, conditions and results in turn, the rest."""
        kind, value = self.tokens[self.place]
        words, parts = [], []
        if (kind, value.lower()) != ("word", "when"):
            words.append("case")
            parts.append(self.either())
        while self.word("when"):
            words.append("when")
            parts.append(self.either())
            self.expect("then")
            parts.append(self.either())
        if "when" not in words:
            self.stop("CASE needs WHEN ... THEN ...")
        if self.word("else"):
            words.append("else")
            parts.append(self.either())
        self.expect("end")
        return _Node("case", tuple(words), tuple(parts))


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
    translator = _Translator(text, columns)
    planes = translator.planes(_Parser(text).read())
    return translator.steps, planes


class _Translator:
    """A translation of nodes into planes, with the columns that they need on the way."""

    def __init__(self, text: str, columns: Mapping[str, Planes]) -> None:
        self.text, self.columns = text, columns
        self.steps: list[pl.Expr] = []
        self.held: dict[str, Planes] = {}

    def planes(self, node: _Node) -> Planes:
        """Return what a node can be read as."""
        import polars as pl

        match node.kind, node.words:
            case "number", (value,):
                return {NUMBER: pl.lit(float(value), dtype=pl.Float64)}
            case "text", (value,):
                return {TEXT: pl.lit(_plain(value), dtype=pl.String)}
            case "constant", ("null",):
                return no_value()
            case "constant", (value,):
                return {TRUTH: pl.lit(value == "true")}
            case "column", (name,):
                return self.column(name)
            case (("or" | "and" | "sum" | "product"), _):
                return self.chain(node)
            case "case", _:
                return self.case(node)
        parts = [self.planes(part) for part in node.parts]
        match node.kind, node.words:
            case "call", (name,):
                return self.function(name, parts)
            case "cast", types:
                return reduce(self.cast, types, parts[0])
            case "sign", words:
                number = self.take(parts[0], NUMBER)
                return {NUMBER: -number if words else number}
            case "compare", (sign,):
                left, right = parts
                plane = self.shared(left, right)
                if plane == TRUTH and sign not in ("=", "<>"):
                    self.refuse("orders truth values; compare them with = or <>")
                return {TRUTH: _COMPARED[sign](left[plane], right[plane])}
            case "not", _:
                test = self.take(parts[0], TRUTH)
            case "null", _:
                test = self.missing(parts[0])
            case "between", _:
                test = self.between(*parts)
            case "in", _:
                test = self.among(*parts)
            case _:
                test = self.like(parts[0], _plain(node.parts[1].words[0]))
        return {TRUTH: ~test if len(node.words) % 2 else test}

    def hold(self, part: "pl.Expr") -> "pl.Expr":
        """Return a value as a column of its own, computed once however often it is used."""
        import polars as pl

        name = f"\0made {len(self.steps)}"
        self.steps.append(part.alias(name))
        return pl.col(name)

    def number(self, part: "pl.Expr") -> Planes:
        """Return a number, missing where it is none: Polars would sort NaN above infinity."""
        return {NUMBER: self.hold(self.hold(part).fill_nan(None))}

    def refuse(self, reason: str) -> NoReturn:
        raise InvalidInput(f"the expression {self.text!r} {reason}")

    def take(self, planes: Planes, plane: str) -> "pl.Expr":
        if plane not in planes:
            self.refuse(f"needs a {plane} where it has a {_words(planes)}")
        return planes[plane]

    def shared(self, *sides: Planes) -> str:
        """Return the one plane on which all sides can be compared."""
        common = _common(sides)
        if not common:
            self.refuse(f"compares a {' with a '.join(map(_words, sides))}")
        if len(common) > 1:
            self.refuse(
                "compares values that could be numbers or text; say which with CAST(... AS "
                "DOUBLE) or CAST(... AS TEXT)"
            )
        return common[0]

    def alike(self, results: Sequence[Planes]) -> list[str]:
        """Return the planes that all results have."""
        common = _common(results)
        if not common:
            self.refuse(f"gives a {' or a '.join(dict.fromkeys(map(_words, results)))}")
        return common

    def column(self, name: str) -> Planes:
        if name not in self.columns:
            self.refuse(f"names a column {name!r} that is not there")
        if name not in self.held:
            planes = self.columns[name]
            self.held[name] = {plane: self.hold(part) for plane, part in planes.items()}
        return self.held[name]

    def chain(self, node: _Node) -> Planes:
        """Return operands joined from left to right."""
        planes, *others = map(self.planes, node.parts)
        plane = TRUTH if node.kind in ("or", "and") else NUMBER
        for sign, other in zip(node.words, others, strict=True):
            x, y = self.take(planes, plane), self.take(other, plane)
            if plane == TRUTH:
                planes = {TRUTH: self.hold(x | y if sign == "or" else x & y)}
            elif sign in ("/", "%"):
                planes = self.number(_divided(x, self.hold(y), sign))
            else:
                planes = self.number(_ADDED[sign](x, y))
        return planes

    def missing(self, planes: Planes) -> "pl.Expr":
        """Return whether there is no value; a loose one is there if any reading of it is."""
        if len(planes) == 1:
            return next(iter(planes.values())).is_null()
        return planes[TEXT].is_null() & planes[NUMBER].is_null()

    def between(self, left: Planes, low: Planes, high: Planes) -> "pl.Expr":
        plane = self.shared(left, low, high)
        value = self.hold(left[plane])
        return (value >= low[plane]) & (value <= high[plane])

    def among(self, left: Planes, *choices: Planes) -> "pl.Expr":
        plane = self.shared(left, *choices)
        value = self.hold(left[plane])
        test = value == choices[0][plane]
        for choice in choices[1:]:
            test = self.hold(test | (value == choice[plane]))
        return test

    def like(self, left: Planes, text: str) -> "pl.Expr":
        signs = {"%": ".*", "_": "."}
        pattern = "".join(signs.get(letter, re.escape(letter)) for letter in text)
        return self.take(left, TEXT).str.contains(f"(?s)^{pattern}$")

    def cast(self, planes: Planes, to: str) -> Planes:
        """Return a value as another type, missing where it has no such value."""
        import polars as pl

        if to == "text":
            return {TEXT: self.take(planes, TEXT)}
        if to == "boolean" and TRUTH in planes:
            return {TRUTH: planes[TRUTH]}
        if NUMBER in planes:
            number = planes[NUMBER]
        elif TEXT in planes:
            parsed = planes[TEXT].str.strip_chars().cast(pl.Float64, strict=False)
            number = self.number(parsed)[NUMBER]
        else:
            number = planes[TRUTH].cast(pl.Float64)
        if to == "boolean":
            return {TRUTH: number != 0}
        if to == "double":
            return {NUMBER: number}
        number = self.hold(number)
        return {NUMBER: self.hold(number.sign() * number.abs().floor())}

    def case(self, node: _Node) -> Planes:
        import polars as pl

        parts = [self.planes(part) for part in node.parts]
        subject = parts.pop(0) if node.words[0] == "case" else None
        rest = parts.pop() if node.words[-1] == "else" else no_value()
        conditions: list[pl.Expr] = []
        for case in parts[::2]:
            if subject is None:
                conditions.append(self.hold(self.take(case, TRUTH)))
            else:
                plane = self.shared(subject, case)
                conditions.append(self.hold(subject[plane] == case[plane]))
        results = [*parts[1::2], rest]
        planes = {}
        for plane in self.alike(results):
            chosen = rest[plane]
            for condition, result in zip(conditions[::-1], results[-2::-1], strict=True):
                chosen = pl.when(condition).then(result[plane]).otherwise(chosen)
            planes[plane] = self.hold(chosen)
        return planes

    def function(self, name: str, arguments: list[Planes]) -> Planes:
        import polars as pl

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
                plane: self.hold(pl.coalesce(*(each[plane] for each in arguments)))
                for plane in self.alike(arguments)
            }
        if name == "nullif":
            plane = self.shared(*arguments)
            same = self.hold(arguments[0][plane] == arguments[1][plane])
            return {
                plane: self.hold(pl.when(~same | same.is_null()).then(part))
                for plane, part in arguments[0].items()
            }
        numbers = [self.take(each, NUMBER) for each in arguments]
        chosen = pl.min_horizontal if name == "least" else pl.max_horizontal
        return {NUMBER: self.hold(chosen(*numbers))}


_ADDED: dict[str, Callable[["pl.Expr", "pl.Expr"], "pl.Expr"]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
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


def _common(sides: Sequence[Planes]) -> list[str]:
    """Return the planes that all sides have."""
    return [plane for plane in (NUMBER, TEXT, TRUTH) if all(plane in side for side in sides)]


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


def _divided(x: "pl.Expr", y: "pl.Expr", sign: str) -> "pl.Expr":
    """Return the quotient, or the remainder with the sign of ``x``; missing if ``y`` is 0."""
    import polars as pl

    quotient = x / y
    if sign == "%":  # beyond 2^53 whole parts a double has no remainder left
        quotient = pl.when(quotient.abs() < 2.0**53).then(x.sign() * (x.abs() % y.abs()))
    return pl.when(y != 0).then(quotient)


PLACEHOLDER = "value"
"""Placeholder of the value column in a normalised expression."""

_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _SIGN, _CAST, _ATOM = range(1, 10)
"""Precedence of operators: an operand of lower precedence stands in brackets."""

_CHAINS = {"or": _OR, "and": _AND, "sum": _SUM, "product": _PRODUCT}


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
    return _written(_Parser(text).read(), value).text


def _written(node: _Node, value: str | None) -> _Part:
    """Return a node in its one form."""
    kind, words = node.kind, node.words
    parts = [_written(part, value) for part in node.parts]
    no = "not " * len(words)  # of tests, which have no other words
    match kind:
        case "number":
            return _Part(repr(float(words[0])).removesuffix(".0"), _ATOM)
        case "text" | "constant":
            return _Part(words[0], _ATOM)
        case "column":
            return _Part(PLACEHOLDER if words[0] == value else _named(words[0]), _ATOM)
        case "call":
            return _Part(f"{words[0]}({', '.join(part.text for part in parts)})", _ATOM)
        case "cast":
            text = parts[0].text
            for to in words:
                text = f"cast({text} as {to})"
            return _Part(text, _ATOM)
        case "sign":
            return _Part(f"-{parts[0].within(_CAST)}", _SIGN) if words else parts[0]
        case "case":
            links = [("when", "then") if word == "when" else (word,) for word in words]
            pairs = zip(chain.from_iterable(links), parts, strict=True)
            text = " ".join(f"{word} {part.text}" for word, part in pairs)
            return _Part(f"{text if words[0] == 'case' else f'case {text}'} end", _ATOM)
        case "not":
            return _Part(f"{no}{parts[0].within(_NOT)}", _NOT)
        case "or" | "and" | "sum" | "product":
            level = _CHAINS[kind]
            text, right = parts[0].within(level), level + (level >= _SUM)  # as a - (b - c)
            for sign, part in zip(words, parts[1:], strict=True):
                text += f" {sign} {part.within(right)}"
            return _Part(text, level)
    left, *others = (part.within(_SUM) for part in parts)
    match kind:
        case "compare":
            text = f"{words[0]} {others[0]}"
        case "null":
            text = f"is {no}null"
        case "between":
            text = f"{no}between {others[0]} and {others[1]}"
        case "in":
            text = f"{no}in ({', '.join(part.text for part in parts[1:])})"
        case _:
            text = f"{no}like {others[0]}"
    return _Part(f"{left} {text}", _TEST)


def _named(name: str) -> str:
    """Return the name of a column, in quotes where it could be read as something else."""
    plain = name.isidentifier() and name != PLACEHOLDER and not is_keyword(name)
    return name if plain else f'"{name}"'
