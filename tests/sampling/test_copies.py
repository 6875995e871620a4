"""Processes that are copied, with and without their number, never repeat each other's noise.

Every probe runs in an interpreter of its own, which draws once before it is copied. Beside what
is released stands a broken twin, a generator that is copied with the memory: it must be caught
repeating, or the probe shows nothing.
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

DRAWS = """
import ctypes, json, os, sys

def enter():
    "Make a namespace in which the next child has the number 1; False if that is not allowed."
    return not ctypes.CDLL(None, use_errno=True).unshare(0x20000000)

apart = sys.argv[1] == "apart"
if apart:
    if not enter():
        print("null")
        sys.exit()
    first = os.fork()
    if first:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))

import numpy as np
import undertow as ut
from undertow.certificate import Leakage
from undertow.mechanisms import RandomizedResponse
from undertow.sampling import streams
from undertow.sampling.integers import discrete_laplace

chain = ut.MarkovChain([[.9, .1], [.3, .7]])
level = Leakage(2.2, 2.2, "exact", "any")
flips = ut.Plan(RandomizedResponse.binary(.5, .5), chain, 2.2, level, "exact")
count = ut.Plan(ut.DiscreteLaplace(ut.Count(1), 1e9), chain, 2.2, level, "exact")
records = np.zeros(20_000, dtype=np.uint8)
begun = streams.draws().first
generator = np.random.default_rng()

def drawn():
    return {
        "noise": discrete_laplace(1e9, 8),
        "release": [ut.release(count, [0, 1]).value for _ in range(8)],
        "flips": sum(int(x) << n for n, x in enumerate(ut.sanitize(flips, records)[:64])),
        "stream": list(flips.stream().each([0] * 64)),
        "begun": begun.take(8).tolist() + begun.take(9000)[:8].tolist(),
        "copied": [int(z) for z in generator.integers(10**9, size=8)],
        "number": os.getpid(),
    }

drawn()  # everything is ready before the copies are made

def copy():
    "What a copy of this process draws; apart: with the number of this process, which is 1."
    here, there = os.pipe()
    child = os.fork()
    if not child:
        try:
            inner = os.fork() if apart and enter() else 0
            if not inner:
                os.write(there, json.dumps(drawn()).encode())
            else:
                os.waitpid(inner, 0)
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as told:
        found = json.loads(told.read())
    os.waitpid(child, 0)
    return found

print(json.dumps([copy() for _ in range(4)] + [drawn()]))
"""


def copies(how):
    """What four copies of a process and the process itself draw."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", DRAWS, how],
        capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    return json.loads(done.stdout)


def assert_all_differ(found):
    for what in ("noise", "release", "flips", "stream", "begun"):
        assert len({str(one[what]) for one in found}) == len(found), what
    assert len({z for one in found for z in one["noise"] + one["release"]}) == 16 * len(found)
    assert len({str(one["copied"]) for one in found}) == 1  # the twin repeats


def test_forked_processes_draw_anew():
    """Five processes; two equal draws of 64 bits have a probability below 10^-18."""
    found = copies("forked")
    assert len({one["number"] for one in found}) == 5
    assert_all_differ(found)


def test_processes_copied_with_their_number_draw_anew():
    """A process and four copies, all with the number 1, each in a PID namespace of its own.

    A generator that is seeded once per process number, as OpenSSL's is, repeats itself here.
    """
    found = copies("apart")
    if found is None:
        pytest.skip("this user may not make PID namespaces")
    assert [one["number"] for one in found] == [1] * 5
    assert_all_differ(found)
