"""The studio: a local page for those who would rather look than read."""
