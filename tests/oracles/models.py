"""Oracles of every model with states: joint laws as exact fractions, and all adversaries.

Nothing here uses the package beyond reading a model's own numbers. Joint laws are products of
fractions summed over hidden values; conditional laws are divided exactly and only then turned
into logarithms, so that probabilities far below the least float stay what they are.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import undertow as ut
from tests.oracles.chains import exact_joint
from tests.oracles.enumeration import law_leakage, log
from tests.oracles.tables import probability
from undertow.mechanisms import TabulatedNoise

Floats = npt.NDArray[np.float64]
Exact = dict[tuple[int, ...], Fraction]
Answer = Callable[[tuple[int, ...]], Sequence[int]]

FOREVER = 10_000  # noise this far out stands for "beyond all answers"


# --- joint laws -----------------------------------------------------------------------------------


def table_of(model: Any) -> Exact:
    """The probability of every combination of the records' values."""
    if isinstance(model, ut.MarkovChain):
        return exact_joint(model)
    if isinstance(model, ut.BayesianNetwork):
        return _network(model)
    assert isinstance(model, ut.Pedigree)
    frequency = model.allele_frequency
    assert isinstance(frequency, float)
    return _families(model, Fraction(frequency))


def tables_of(model: Any, points: int = 3) -> list[Exact]:
    """The joint laws of every member of a set; of intervals of frequencies some points."""
    if isinstance(model, ut.ModelSet):
        return [table for member in model.models for table in tables_of(member, points)]
    if isinstance(model, ut.Pedigree) and isinstance(model.allele_frequency, tuple):
        low, high = map(Fraction, model.allele_frequency)
        shares = [Fraction(step, points - 1) for step in range(points)]
        return [_families(model, low + share * (high - low)) for share in shares]
    return [table_of(model)]


def _network(network: ut.BayesianNetwork) -> Exact:
    nodes = list(network.nodes)
    above = {node: [p for p, child in network.edges if child == node] for node in nodes}
    rows = {node: _exact_rows(network.cpds[node]) for node in nodes}
    sizes = [network.cpds[node].shape[-1] for node in nodes]
    found: Exact = {}
    for values in itertools.product(*map(range, sizes)):
        here = dict(zip(nodes, values, strict=True))
        probability = Fraction(1)
        for node in nodes:
            probability *= rows[node][(*(here[p] for p in above[node]), here[node])]
            if not probability:
                break
        if probability:
            key = tuple(here[node] for node in network.observed)
            found[key] = found.get(key, Fraction(0)) + probability
    return found


def _exact_rows(table: Floats) -> dict[tuple[int, ...], Fraction]:
    """The entries of a table as fractions, every row divided by its exact sum."""
    found = {}
    for place in np.ndindex(*table.shape[:-1]):
        row = [Fraction(float(entry)) for entry in table[place]]
        for state, entry in enumerate(row):
            found[(*place, state)] = entry / sum(row)
    return found


def _families(pedigree: ut.Pedigree, p: Fraction) -> Exact:
    """Genotypes (2 minus the number of alleles B), one person at a time, parents first."""
    parents = {child: pair for child, pair in pedigree.parents.items() if any(pair)}
    everyone = [*pedigree.people, *pedigree.latent]
    order: list[Any] = []
    while len(order) < len(everyone):
        order += [
            person
            for person in everyone
            if person not in order and all(q is None or q in order for q in parents.get(person, ()))
        ]
    found: Exact = {}

    def passed(parent: Any, here: Mapping[Any, int]) -> Fraction:
        return p if parent is None else Fraction(2 - here[parent], 2)

    def grow(place: int, here: dict[Any, int], probability: Fraction) -> None:
        if place == len(order):
            key = tuple(here[person] for person in pedigree.people)
            found[key] = found.get(key, Fraction(0)) + probability
            return
        person = order[place]
        one, two = (passed(parent, here) for parent in parents.get(person, (None, None)))
        both, none = one * two, (1 - one) * (1 - two)
        for genotype, share in enumerate((both, 1 - both - none, none)):
            if share:
                grow(place + 1, {**here, person: genotype}, probability * share)

    grow(0, {}, Fraction(1))
    return found


# --- leakages -------------------------------------------------------------------------------------


def noisy(answer: Answer, most: int, scale: float) -> Callable[[tuple[int, ...]], Floats]:
    """Log-likelihoods of integer answers with Laplace noise, at every integer and far beyond."""
    numbers = len(answer((0,) * most))
    line = [-FOREVER, *range(-1, most + 2), FOREVER] if numbers == 1 else range(-1, most + 2)
    outputs = np.array(list(itertools.product(line, repeat=numbers)), dtype=np.float64)
    base = np.abs(outputs).sum(axis=1)

    def score(values: tuple[int, ...]) -> Floats:
        apart = np.abs(outputs - np.array(answer(values))).sum(axis=1)
        return np.asarray((base - apart) / scale)

    return score


def tabulated(answer: Answer, most: int, noise: Any) -> Callable[[tuple[int, ...]], Floats]:
    """Log-likelihoods of a count with noise from a table, at its places and far into its tails."""
    last = noise.first + len(noise.weights) - 1
    outputs = range(noise.first - 3, last + most + 4)
    logs = {z: log(probability(noise, z)) for z in range(outputs[0] - most, outputs[-1] + 1)}

    def score(values: tuple[int, ...]) -> Floats:
        return np.array([logs[output - answer(values)[0]] for output in outputs])

    return score


def counted(states: Sequence[int]) -> Answer:
    return lambda values: [sum(value in states for value in values)]


def binned(size: int) -> Answer:
    return lambda values: [values.count(state) for state in range(size)]


def truth(model: Any, mechanism: Any, against: Any) -> float:
    """What a noisy count or histogram leaks on a model or a set of models, by enumeration."""
    worst = 0.0
    for table in tables_of(model):
        length = len(next(iter(table)))
        states = list(_states(model))
        query = mechanism.query
        answer = (
            counted([states.index(state) for state in query.states])
            if isinstance(query, ut.Count)
            else binned(len(states))
        )
        if isinstance(mechanism, TabulatedNoise):
            score = tabulated(answer, length, mechanism)
        else:
            score = noisy(answer, length, mechanism.scale)
        worst = max(worst, law_leakage(table, score, against))
    return worst


def product_leakage(table: Exact, size: int, epsilon: float, against: Any) -> float:
    """The most that product likelihoods of one level leak: never above the truth of the level."""
    length = len(next(iter(table)))
    choices = [
        chosen
        for number in range(size + 1)
        for chosen in itertools.combinations(range(size), number)
    ]
    every = list(itertools.product(choices, repeat=length))

    def score(values: tuple[int, ...]) -> Floats:
        return np.array([
            epsilon * sum(v in chosen for v, chosen in zip(values, sets, strict=True))
            for sets in every
        ])  # fmt: skip

    return law_leakage(table, score, against)


def _states(model: Any) -> Sequence[Any]:
    return _states(model.models[0]) if isinstance(model, ut.ModelSet) else model.states
