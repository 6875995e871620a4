"""Who attacks: construction, refusals, plain words."""

import pytest

import undertow as ut
from undertow.adversaries import check_against, words
from undertow.errors import InvalidInput


@pytest.mark.parametrize(
    ("target", "known", "message"),
    [
        (-1, (), "target must be at least 0"),
        (1.0, (), "target must be a whole number"),
        (True, (), "target must be a whole number"),
        ("1", (), "target must be a whole number"),
        (1, (-1,), "known record must be at least 0"),
        (1, (0.5,), "known record must be a whole number"),
        (1, "02", "known record must be a whole number"),
        (1, (0, 0), "listed twice"),
        (1, (0, 1), "record 1 is both target and known"),
    ],
)
def test_impossible_adversaries_are_refused(target, known, message):
    with pytest.raises(InvalidInput, match=message):
        ut.Adversary(target, known)


@pytest.mark.parametrize("against", ["any", "ignorant", "informed", ut.Adversary(1)])
def test_the_four_ways_to_name_one(against):
    assert check_against(against) is against


@pytest.mark.parametrize("against", ["ANY", "", "everyone", None, 1, (1, ()), ["any"]])
def test_other_names_are_refused(against):
    with pytest.raises(InvalidInput, match="'any', 'ignorant', 'informed' or an Adversary"):
        check_against(against)
    with pytest.raises(InvalidInput, match="against must be"):
        ut.leakage(ut.PureDP(1.0), ut.Groups(2), against=against)
    with pytest.raises(InvalidInput, match="against must be"):
        ut.dp_budget(ut.Groups(2), 1.0, against=against)
    with pytest.raises(InvalidInput, match="against must be"):
        ut.calibrate(ut.Count(1), ut.Groups(2), 1.0, against=against)


def test_plain_words():
    assert "any other records" in words("any")
    assert "no other record" in words("ignorant")
    assert "all other records" in words("informed")
    assert words(ut.Adversary(3, [0, 5])).endswith("wants record 3 and knows 0, 5")
    assert words(ut.Adversary(3)).endswith("wants record 3 and knows no other record")


def test_an_adversary_outside_the_chain_is_refused():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=4)
    for adversary in (ut.Adversary(4), ut.Adversary(0, [4])):
        with pytest.raises(InvalidInput, match=r"names record 4, but there are 4 records"):
            ut.leakage(ut.PureDP(1.0), chain, against=adversary)
