"""The words and signs of an expression, and the columns it names."""

import re

from undertow.errors import InvalidInput

__all__ = ["Token", "columns_of", "is_keyword", "tokens_of"]

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
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise InvalidInput(
                f"the expression {text!r} cannot be read at character {place}; write SQL such as "
                "'steps > 0'"
            )
        kind, value = found.lastgroup, found[found.lastgroup]
        if kind == "quoted":
            kind, value = "column", value[1:-1]
        tokens.append((kind, value))
        place = found.end()
    if not tokens or len(tokens) > _LONGEST:
        found_words = "is empty" if not tokens else f"has more than {_LONGEST} words and signs"
        raise InvalidInput(f"the expression {found_words}; write SQL such as 'steps > 0'")
    return [*tokens, ("end", "")]
