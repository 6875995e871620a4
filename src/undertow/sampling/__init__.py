"""Random numbers of releases: no other package draws any."""
