"""Formulas as MathML, which browsers draw themselves: the pages need no script from elsewhere."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.math import get_node_equation_number

__all__ = ["setup"]

# What the converter of docutils does not know, in words that it does.
_SAID_OTHERWISE = (
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\(big|Big|bigg|Bigg)(?![a-zA-Z])"), r"\\\1l"),
)


def mathml(formula: str, block: bool = False) -> str:
    r"""Return a LaTeX formula as MathML; refuse what cannot be converted.

    >>> mathml(r"a \le b").startswith("<math")
    True
    """
    for pattern, words in _SAID_OTHERWISE:
        formula = pattern.sub(words, formula)
    return str(tex2mathml(formula, as_block=block))


def _visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def _visit_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, _("Link to this equation"))
        writer.body.append("</span>")
    writer.body.append(mathml(node.astext(), block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
