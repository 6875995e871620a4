"""Names are shown to people with nothing hidden in them."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from undertow.rounding import visible

ANY_TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=sys.maxunicode, categories=None))
OBEYED = {"Cc", "Cs", "Zl", "Zp"}
DIRECTION = {*map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C))}
NO_WIDTH = {"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad"}


def hidden(text: str) -> set[str]:
    return {
        letter
        for letter in text
        if unicodedata.category(letter) in OBEYED or letter in DIRECTION | NO_WIDTH
    }


@given(ANY_TEXT)
@example("\x1b]0;title\x07")
@example("\ud800 half")
@example("a\u202eb")
def test_nothing_is_hidden(text):
    shown = visible(text)
    assert hidden(shown) == set()
    assert hidden(visible(text, lines=True)) <= {"\n"}
    assert visible(shown) == shown  # once is enough
    assert visible(text, lines=True).count("\n") == text.count("\n")
    shown.encode("utf-8")


@given(ANY_TEXT)
def test_all_else_stays(text):
    left = [letter for letter in text if visible(letter) == letter]
    assert visible("".join(left)) == "".join(left)


@pytest.mark.parametrize(
    "name", ["Zürich", "東京", "Ω ≤ 3", "naïve “quoted”", "[bold]", "a\\b", "नमस्ते", "🙂", "it's"]
)
def test_ordinary_names_stay_as_they_are(name):
    assert visible(name) == name


def test_escapes_are_those_of_python():
    assert visible("\x1b[2J\t\r\n\x7f\x9b\u202e\U000e0041\ud800") == (
        r"\x1b[2J\t\r\n\x7f\x9b\u202e\U000e0041\ud800"
    )
