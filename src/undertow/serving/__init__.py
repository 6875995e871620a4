"""The HTTP service of a ledger, and the parts shared by every server."""
