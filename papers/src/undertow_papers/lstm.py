"""The neural attacker: an LSTM that learns from examples what outputs say of a record.

It knows no model. Each record is guessed from the outputs in a window around it: they are embedded
in four dimensions, read by one LSTM layer, and its last state goes through a linear layer to a
sigmoid (two states) or a softmax (more), as in section 4 of [chakrabarti2022]. What it says of a
record was learned from other records: the series is cut into folds of neighbours, and each fold is
guessed by a network that was trained on the rest of them. A slice of the rest decides when to stop.

The only module that imports torch, and only when a network is trained.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.attackers import Attacker, Guess, Scenario, best
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.numerics import Array, check_count, check_positive
from undertow.queries import State

__all__ = ["Training", "device_name", "lstm_attacker", "lstm_probabilities"]

EMBEDDING = 4
"""Dimensions in which an output is embedded, as in the paper."""

FORGET = 2.0
"""Bias of the forget gates before training: memory that lasts for a window."""

FINER = 0.7
"""Factor of the step size after an epoch that did not help."""

MOST_SYMBOLS = 254
"""Different outputs that a window can hold: it is kept in bytes."""

Tick = Callable[[int, int], object]
"""Called after each epoch with the work done and the most there can be, in epochs."""

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is built and trained.

    ``window`` outputs are read, the record's own in the middle; ``hidden`` is the size of the
    LSTM's state. Training stops after ``epochs`` passes, or when the held-out slice has not
    improved for ``patience`` of them, and returns to the best. ``device`` is "cpu", "cuda" or None:
    the GPU if there is one. The same seed gives the same guesses on the same machine. ``threads``
    are those of the processor: such small networks gain little from more than one.

    >>> Training(window=21, folds=3).hidden
    24
    """

    window: int = 31
    hidden: int = 24
    folds: int = 10
    epochs: int = 30
    patience: int = 6
    batch: int = 256
    rate: float = 0.01
    seed: int = 0
    device: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        """Check every setting."""
        for name in ("window", "hidden", "folds", "epochs", "patience", "batch", "threads"):
            check_count(getattr(self, name), name, 2 if name == "folds" else 1)
        check_count(self.seed, "seed", 0)
        check_positive(self.rate, "rate")
        if not self.window % 2:
            raise InvalidInput(
                f"window must be odd, so that the record stands in its middle; found {self.window}"
            )
        if self.device not in (None, "cpu", "cuda"):
            raise InvalidInput(f"device must be 'cpu', 'cuda' or None, found {self.device!r}")


def lstm_probabilities(
    outputs: Any,
    truth: Any,
    alphabet: Sequence[State],
    *,
    lengths: Sequence[int] | None = None,
    training: Training | None = None,
    tick: Tick | None = None,
) -> Array:
    """Return what a network says of each record's state, shape (records, states), out of fold.

    No record was seen, nor held out, by the network that guesses it. Needs torch; runs on a GPU
    where there is one. Time grows as records * window * folds * epochs.

    Parameters
    ----------
    outputs
        What was shown of each record, series after series; None for an erased one.
    truth
        The true state of each record.
    alphabet
        The states, in the order of the columns.
    lengths
        The length of each series, by default one; windows do not reach into another.
    training
        How to train, by default `Training()`.
    tick
        Called after each epoch with the work done and the most there can be.

    >>> truth = np.random.default_rng(1).integers(0, 2, 20).repeat(10)
    >>> quick = Training(window=5, hidden=4, folds=2, epochs=8, batch=16, device="cpu")
    >>> found = lstm_probabilities(truth, truth, (0, 1), training=quick)  # shown as they are
    >>> found.shape, bool((found.argmax(axis=1) == truth).mean() > .95)
    ((200, 2), True)
    """
    plan = Training() if training is None else training
    states = tuple(alphabet)
    labels, codes, symbols = _labels(truth, states), *_codes(outputs)
    spans = _spans(len(labels), len(codes), lengths)
    if len(states) < 2:
        raise InvalidInput(f"the alphabet must have at least two states, found {len(states)}")
    if len(labels) < 4 * plan.folds:
        raise InvalidInput(
            f"{plan.folds} folds need at least {4 * plan.folds} records, found {len(labels)}; ask "
            "for fewer folds"
        )
    torch = _torch()
    windows = _windows(codes, spans, plan.window)  # (records, window)
    law = np.empty((len(labels), len(states)))
    with _seeded(torch, plan) as device:
        shown, true = (torch.from_numpy(array).to(device) for array in (windows, labels))
        task = _Learner(torch, device, shown, true, symbols + 1, len(states), plan)
        for fold, (inside, held, rest) in enumerate(_folds(len(labels), plan.folds)):
            network = task.trained(rest, held, fold, tick)
            law[inside] = task.law(network, inside)
    return law


def lstm_attacker(training: Training | None = None, tick: Tick | None = None) -> Attacker:
    """Return the attacker for `attack(..., attackers=["viterbi", lstm_attacker()])`.

    It learns from the truth, fold by fold, which makes it stronger than one who has other series of
    the same kind only. Known records are not used.

    >>> lstm_attacker().__name__
    'lstm'
    """

    def lstm(scenario: Scenario) -> Guess:
        observed, width = scenario.outputs, len(scenario.chain.states)
        codes = np.asarray(observed.present_values(observed.codes))
        if observed.present is not None:
            raise NotSupported("the neural attacker needs series without absent steps")
        law = lstm_probabilities(
            codes, scenario.truth, range(width), lengths=np.diff(observed.ends, prepend=0).tolist(),
            training=training, tick=tick,
        )  # fmt: skip
        return Guess(best(law), scenario.prior)  # its odds are learned, not known: none are charged

    return lstm


def device_name(device: str | None = None) -> str:
    """Return where networks would be trained, in words: the GPU's name, or the processor.

    >>> device_name("cpu")
    'cpu'
    """
    torch = _torch()
    place = _device(torch, device)
    return str(torch.cuda.get_device_name(place)) if place.type == "cuda" else "cpu"


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise NotSupported(
            "the neural attacker needs torch: pip install 'undertow-papers[neural]'"
        ) from error
    module: ModuleType = torch
    return module


def _device(torch: Any, wanted: str | None) -> Any:
    there = bool(torch.cuda.is_available())
    if wanted == "cuda" and not there:
        raise NotSupported("no GPU was found; leave device out, or say device='cpu'")
    return torch.device("cuda" if there and wanted != "cpu" else "cpu")


@contextlib.contextmanager
def _seeded(torch: Any, plan: Training) -> Iterator[Any]:
    """Give the device, with random numbers and threads of our own; the caller keeps his."""
    device, threads = _device(torch, plan.device), torch.get_num_threads()
    try:
        torch.set_num_threads(plan.threads)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(plan.seed)
            yield device
    finally:
        torch.set_num_threads(threads)


def _labels(truth: Any, states: tuple[State, ...]) -> Ints:
    places = {state: place for place, state in enumerate(states)}
    listed = _listed(truth)
    labels = np.empty(len(listed), dtype=np.int64)
    for record, state in enumerate(listed):
        if state not in places:
            raise UnknownState(
                f"record {record} of the truth (counting from 0) is none of the states of the "
                "alphabet; pass the states that can occur"
            )
        labels[record] = places[state]
    return labels


def _codes(outputs: Any) -> tuple[Bytes, int]:
    """Return outputs as numbers from 1 on, and how many there are; 0 is kept for the edges."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(output, len(places) + 1) for output in _listed(outputs)]
    if len(places) > MOST_SYMBOLS:
        raise NotSupported(f"at most {MOST_SYMBOLS} different outputs can be read in a window")
    return np.array(codes, dtype=np.uint8), len(places)


def _listed(series: Any) -> list[Any]:
    return series.tolist() if isinstance(series, np.ndarray) else list(series)


def _spans(records: int, outputs: int, lengths: Sequence[int] | None) -> list[int]:
    if records != outputs:
        raise InvalidInput(
            f"there are {outputs} outputs and {records} true records; they must be of the same "
            "series"
        )
    spans = [records] if lengths is None else [check_count(n, "length", 0) for n in lengths]
    if sum(spans) != records:
        raise InvalidInput(
            f"the lengths sum to {sum(spans)}, but there are {records} records; pass the length of "
            "each series"
        )
    return spans


def _windows(codes: Bytes, spans: Sequence[int], window: int) -> Bytes:
    """Return the outputs around each record, 0 beyond the ends of its series."""
    half, begin, rows = window // 2, 0, []
    edge = np.zeros(half, dtype=np.uint8)
    for span in spans:
        if span:
            padded = np.concatenate([edge, codes[begin : begin + span], edge])
            rows.append(np.lib.stride_tricks.sliding_window_view(padded, window))  # (span, window)
        begin += span
    return np.concatenate(rows)


def _folds(records: int, folds: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Give (fold, held out, rest) for folds of neighbouring records.

    Neighbours stay together: a record next to one that was learned would be half known.
    """
    parts = np.array_split(np.arange(records), 2 * folds)
    for fold in range(folds):
        inside = np.concatenate(parts[2 * fold : 2 * fold + 2])
        held = parts[(2 * fold + folds) % (2 * folds)]
        if folds == 2:
            held = held[: max(len(held) // 2, 1)]
        rest = np.setdiff1d(np.arange(records), np.concatenate([inside, held]))
        yield inside, held, rest


@dataclass(frozen=True, slots=True, eq=False)
class _Learner:
    """Windows and states on a device, and how to learn one from the other."""

    torch: Any
    device: Any
    windows: Any
    labels: Any
    symbols: int
    states: int
    plan: Training

    def network(self) -> Any:
        """Return an untrained network."""
        torch, nn = self.torch, self.torch.nn

        class Network(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, symbols: int, hidden: int, logits: int) -> None:
                super().__init__()
                self.embedding = nn.Embedding(symbols, EMBEDDING)
                self.lstm = nn.LSTM(EMBEDDING, hidden, batch_first=True)
                self.linear = nn.Linear(hidden, logits)
                with torch.no_grad():  # remember at first: the record stands in the middle
                    self.lstm.bias_ih_l0[hidden : 2 * hidden] = FORGET

            def forward(self, windows: Any) -> Any:
                # (batch, window) embedded as (batch, window, 4); last: (layers = 1, batch, hidden)
                _, (last, _) = self.lstm(self.embedding(windows))
                return self.linear(last[-1])  # (batch, logits)

        logits = 1 if self.states == 2 else self.states
        return Network(self.symbols, self.plan.hidden, logits).to(self.device)

    def trained(self, rest: Ints, held: Ints, fold: int, tick: Tick | None) -> Any:
        """Return a network that learned from the rest, as it was when the held-out fit best."""
        torch, plan = self.torch, self.plan
        network = self.network()
        optimiser = torch.optim.Adam(network.parameters(), lr=plan.rate)
        inputs, wanted = self.windows[rest], self.labels[rest]
        best_loss, best_state, since, most = np.inf, None, 0, plan.folds * plan.epochs
        for epoch in range(plan.epochs):
            network.train()
            for part in torch.randperm(len(rest), device=self.device).split(plan.batch):
                optimiser.zero_grad()
                loss = self._loss(network(inputs[part].int()), wanted[part])
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
            loss = float(self._loss(self._logits(network, held), self.labels[held]))
            if loss < best_loss:
                best_loss, since = loss, 0
                best_state = {k: v.detach().clone() for k, v in network.state_dict().items()}
            else:
                since += 1
                for group in optimiser.param_groups:  # finer steps where coarse ones no longer help
                    group["lr"] *= FINER
            if tick is not None:
                tick(fold * plan.epochs + epoch + 1, most)
            if since >= plan.patience:
                break
        if best_state is not None:
            network.load_state_dict(best_state)
        return network

    def law(self, network: Any, records: Ints) -> Array:
        """Return the probabilities of the states of some records."""
        logits = self._logits(network, records).double()
        if self.states == 2:
            one = self.torch.sigmoid(logits)
            logits = self.torch.cat([1 - one, one], dim=1)  # (records, 2)
        else:
            logits = self.torch.softmax(logits, dim=1)
        return np.asarray(logits.cpu().numpy(), dtype=np.float64)

    def _loss(self, logits: Any, wanted: Any) -> Any:
        functional = self.torch.nn.functional
        if self.states == 2:
            return functional.binary_cross_entropy_with_logits(logits[:, 0], wanted.float())
        return functional.cross_entropy(logits, wanted)

    def _logits(self, network: Any, records: Ints) -> Any:
        network.eval()
        with self.torch.no_grad():
            parts = self.windows[records].split(8192)
            return self.torch.cat([network(part.int()) for part in parts])  # (records, logits)
