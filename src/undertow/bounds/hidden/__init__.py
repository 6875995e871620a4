"""Leakages on hidden chains: exact to the ignorant where the law is attractive; attacks."""
