"""The studio: a local page for the person who would rather look than read.

`undertow studio` serves it to the browser of the same machine. Pages are rendered here, forms are
plain HTML, long work runs in processes of its own; see docs/adr/0020-studio.md.
"""
