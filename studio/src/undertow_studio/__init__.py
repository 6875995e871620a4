"""The studio: local pages from a table to a release.

`undertow studio` serves them to the browser of the same machine. Pages are rendered on the server,
forms are plain HTML, long work runs in processes of its own; see docs/adr/0020-studio.md.
"""
