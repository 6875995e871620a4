"""The library's advice in the words of the command line: options and commands, not arguments."""

import re

__all__ = ["in_cli_words"]

_OPTIONS = (
    "accept", "against", "allele", "attackers", "by", "confidence", "covers", "dataset", "delta",
    "effort", "every", "gaps", "groups", "known", "least", "length", "limit", "method", "missing",
    "model", "neighbours", "noise", "objective", "pairs", "person", "prior", "protect", "pure",
    "releases", "scale", "share", "sigma", "source", "start", "state", "states", "target",
    "targets", "time", "unit", "value", "window",
)  # fmt: skip
"""Arguments that are options of the same name."""

_RENAMED = {"release_id": "id"}
"""Arguments that are options of another name."""

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = rf"(?:{_QUOTED}|\[[^\]]*\]|\([^)]*\)|\w+\((?:[^()]|\([^()]*\))*\)|\.\.\.|[\w.+-]*\w)"
_ARGUMENT = rf"\b(?:{'|'.join((*_OPTIONS, *_RENAMED))})=(?:{_VALUE}(?: or {_QUOTED})*)?"

_PHRASES = (
    (r"\bvalues=\{[^{}]*\}", "--values STATE=NUMBER,..."),
    (
        (
            r"Data\(\.\.\., state='value > 0'\) or --state 'value > 0', or a mapping, "
            r"Data\(\.\.\., state=\{True: \.\.\.\}\)"
        ),
        "--state 'value > 0'",
    ),
    (r"state='value > 0' or --state 'value > 0', or state=", "--state 'value > 0' or --state "),
    (r" \(person=\.\.\., --person\)", " (--person)"),
    (r"Data\(\.\.\., ungrouped=True\), --ungrouped", "--ungrouped"),
    (r"accept=\('same-records',\)", "--accept same-records"),
    (r"\bstrict=True\b", "--strict"),
    (r"\(private=LEVEL and a ledger\)", "(--private)"),
    (r": model\.every_nth\(\d+\)", " (in Python: every_nth)"),
    (r"'undertow plan' or calibrate\(\.\.\.\)", "'undertow plan'"),
    (r"Data\(table, value=\.\.\., person=\.\.\., time=\.\.\.\)", "--value, --person and --time"),
    (r"Data\(table, value=\.\.\.\)", "--value"),
    (r"release\(plan, data\)", "'undertow release'"),
    (r"sanitize\(plan, data\)", "'undertow sanitize'"),
    (r"redact\(plan, data\)", "'undertow redact'"),
    (r"calibrate\(Series\(\), \.\.\.\)", "'undertow plan --series'"),
    (r"calibrate\([^()]*\)", "'undertow plan'"),
    (r"Series\(\) or Redacted\(\.\.\.\)", "--series or --redacted"),
    (r"MarkovChain\(\.\.\., length=\d+\)", "--length {}"),
    (r"Redacted\(protect=\d+, length=\d+\)", "--redacted --protect {} --length {}"),
    (r"Redacted\(protect=\d+\)", "--redacted --protect {}"),
    (r"Redacted\(protect=\.\.\.\)", "--redacted with --protect"),
    (r"(?:protect=)?Window\(\d+\)", "--protect-window {}"),
    (r"(?:protect=)?Window\('1 hour', every='5m'\)", "--protect-window 1h --every 5m"),
    (r"a model such as MarkovChain\(\.\.\.\)", "a model"),
    (r"\bset_limit\(limit, delta=1e-6\)", "'undertow ledger limit --delta 1e-6'"),
    (r"\bset_limit\b(?:\([^()]*\))?", "'undertow ledger limit'"),
    (r"\brelease_id\b(?!=)", "--id"),
    (r"\bverify\(\)", "'undertow ledger verify'"),
    (r"\(state=\.\.\., or --state\)", "(--state)"),
    (r"\b(?:lower|upper)=(?=[^.])", ""),
    (r"its point\(\) takes", "'undertow fit --point' takes"),
    (r"MarkovChain\.fit\(\.\.\., order=2\)", "'undertow fit --order 2'"),
    (r"model\.population\(\)", "'undertow fit --population'"),
    (r"plan with Groups\(\d+\)", 'plan with a model file of kind "groups" and size {}'),
    (r", such as MarkovChain\(\.\.\.\) or Groups\(5, states=\.\.\.\)", ", in its file"),
    (r"ModelSet\(\[Groups\(4\), MarkovChain\(\.\.\.\)\]\)", 'a model file of kind "set"'),
    (
        r"Laplace\(Sum\(lower, upper\), scale\), Laplace.* or PureDP",
        "--sum with --scale, or --epsilon",
    ),
)
"""What the library says, and what it is called here; the first that fits counts."""

_FOUND = re.compile(r"\d+")
_RULES: dict[str, str] = {f"rule{place}": meant for place, (_, meant) in enumerate(_PHRASES)}
_SCAN = re.compile(
    "|".join(f"(?P<rule{place}>{said})" for place, (said, _) in enumerate(_PHRASES))
    + rf"|(?P<argument>{_ARGUMENT})|(?P<name>(?<![\w=(\[])(?:{_QUOTED}))"
)


def in_cli_words(message: str) -> str:
    """Return a message of the library with options and commands in the place of arguments.

    What stands in quotation marks is a name from a file or from the user, and stays.

    >>> in_cli_words("plan with method='exchange' and without a length; found 'time=1'")
    "plan with --method exchange and without a length; found 'time=1'"
    >>> in_cli_words("a window needs the column of times; say time=...")
    'a window needs the column of times; say --time'
    >>> in_cli_words("raise the limit with set_limit")
    "raise the limit with 'undertow ledger limit'"
    """
    return _SCAN.sub(_meant, message)


def _meant(found: re.Match[str]) -> str:
    said, kind = found[0], found.lastgroup or "name"
    if kind == "argument":
        return _option(said)
    return said if kind == "name" else _RULES[kind].format(*_FOUND.findall(said))


def _option(said: str) -> str:
    """Return 'name=value' as it is typed on the command line.

    >>> _option("method='mq' or 'optimal'"), _option("protect=[5]"), _option("missing=...")
    ('--method mq or optimal', '--protect 5', '--missing')
    >>> _option("accept=('order', 'time')"), _option("accept=('order',)")
    ('--accept order,time', '--accept order')
    >>> print(_option("state='cast(v as double)'"))
    --state 'cast(v as double)'
    """
    name, _, value = said.partition("=")
    if value.startswith("MarkovChain("):  # a model is a file
        value = "FILE"
    if re.fullmatch(r"'[^']*[ (][^']*'", value):  # a shell needs the quotation marks
        return f"--{name} {value}"
    plain = re.sub(r"['\"\[\]()]", "", value).replace("...", "").replace(", ", ",").rstrip(",")
    return f"--{_RENAMED.get(name, name)} {plain}".rstrip()
