"""Bound the leakage of chains with memory: order two, hidden states, attractive laws."""
