"""Charts of the studio as SVG and HTML of its own: no script, no style, no other library."""
