"""Charts as SVG and HTML: no script, no style, no other library."""
