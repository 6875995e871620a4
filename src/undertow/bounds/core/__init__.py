"""Engine of chains: limits, steps, sides, joins and attacks on lowered laws."""
