"""Accounts over HTTP: one process keeps a ledger for a team, and what every server here shares."""
