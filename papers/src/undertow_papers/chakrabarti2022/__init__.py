"""The results of [chakrabarti2022]: flipped series on binary Markov chains, recomputed and judged.

The paper's mechanism is right about an attacker who knows no other record, and wrong about those
who know some (Theorem 2). Records are counted from 1 in the paper and in titles, from 0 in code.
"""
