"""Functions that a worker process is sent by the tests."""

import os
import signal
import time

from undertow.errors import InvalidInput
from undertow.progress import doing


def add(one, two):
    return one + two


def refuse():
    raise InvalidInput("choose another column")


def fail(secret):
    raise ZeroDivisionError(f"division of {secret}")


def count_for_long():
    for step in range(6000):
        doing("counting", step, 6000)
        time.sleep(0.05)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def process():
    return os.getpid()


def say_nothing_for_long():
    time.sleep(3000)
