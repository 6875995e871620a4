"""Every result of [massny2025], local redaction around a private record, recomputed.

Records are counted from 1 here, as in the paper; the library counts from 0.
"""
