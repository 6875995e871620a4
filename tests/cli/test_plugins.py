"""Commands of other distributions: found by their entry points, refused with what to install."""

import pytest
import typer
from typer.testing import CliRunner

from undertow.cli import plugins
from undertow.cli.plugins import add_commands, registered_attacker


@pytest.mark.parametrize(
    ("command", "distribution"),
    [("studio", "undertow-studio"), ("reproduce", "undertow-papers")],
)
def test_a_missing_distribution_is_named_in_one_line(command, distribution):
    app = typer.Typer(rich_markup_mode=None)
    add_commands(app, installed=())
    result = CliRunner().invoke(app, [command, "--demo", "all"])
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if "pip install" in line]
    assert len(lines) == 1
    assert lines[0].endswith(
        f"'undertow {command}' comes with another package: pip install {distribution}"
    )
    assert f"(needs {distribution})" in CliRunner().invoke(app, ["--help"]).stdout


def test_an_attacker_of_a_missing_distribution_is_named_in_one_line(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda **_: ())
    with pytest.raises(typer.BadParameter, match=r"pip install 'undertow-papers\[neural\]'"):
        registered_attacker("lstm", lambda *_: None)
    assert registered_attacker("prior", lambda *_: None) == "prior"
