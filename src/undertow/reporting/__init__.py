"""Reports of releases: what was guaranteed and to whom, as text, HTML and JSON."""
