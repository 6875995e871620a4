"""Sphinx configuration: Markdown pages, docstrings from the source, citations by key."""

import re
import sys
from pathlib import Path
from typing import Any

import pybtex.plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx

import undertow

sys.path.insert(0, str(Path(__file__).parent))

project = "undertow"
copyright = "the undertow contributors"
version = release = undertow.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    # beside this file
    "figures",
    "mathml",
    "reference_pages",
]
exclude_patterns = ["_build"]
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "furo"
html_title = f"undertow {release}"
html_copy_source = False

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_attr_annotations = False
# Other projects' names are shown, not linked: a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(?!undertow\.).*"),
    ("py:class", r"undertow\.reporting\.facts\..*"),
    ("py:class", r"undertow\.(plan|models\.base)\.M"),
    ("py:class", r"undertow\.(data\.codes|sampling\.bits)\..*"),
]

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "bykey"

_KEYS = re.findall(
    r"^@\w+\{(\w+),", (Path(__file__).parent / "references.bib").read_text("utf-8"), re.MULTILINE
)
_CITATION = re.compile(rf"\[({'|'.join(_KEYS)})\]")
# Characters that reStructuredText reads as markup and our docstrings mean as mathematics.
_MARKUP = re.compile(r"(``.*?``|`[^`]+`)|([*|])")


class _KeyLabels(BaseLabelStyle):
    """Labels of entries: their keys, as pages cite them."""

    def format_labels(self, sorted_entries: list[Any]) -> list[str]:
        return [entry.key for entry in sorted_entries]


class _ByKey(Style):
    """The plain style with keys for labels."""

    default_label_style = _KeyLabels


pybtex.plugin.register_plugin("pybtex.style.formatting", "bykey", _ByKey)


def _link_citations_in_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Turn [key] into a link to the bibliography."""
    source[0] = _CITATION.sub(r"{cite:p}`\1`", source[0])


def _read_docstring_as_prose(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Escape mathematics in a docstring, and link its citations.

    Where a docstring has sections, its closing example is made one: a section ends only where the
    next begins.
    """
    starts = [number for number, line in enumerate(lines) if line.startswith(">>>")]
    if starts and any(line.startswith("---") for line in lines):
        lines[starts[0] : starts[0]] = ["Examples", "--------"]
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        plain = _MARKUP.sub(lambda match: match[1] or "\\" + match[2], line)
        lines[number] = _CITATION.sub(r":cite:p:`\1`", plain)


def setup(app: Sphinx) -> None:
    """Connect the rewriters of pages and docstrings."""
    app.connect("source-read", _link_citations_in_page)
    app.connect("autodoc-process-docstring", _read_docstring_as_prose, priority=400)
