"""The key of a release: one for all runs until it is recorded, for its owner alone, then gone."""

import json
import multiprocessing
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.ledger import soak_work as work
from tests.ledger.places import EIGHTH
from undertow import ledger as checkpoints
from undertow.errors import AccountWarning, LedgerConflict
from undertow.ledger import keys as module
from undertow.ledger.book import Ledger
from undertow.ledger.keys import Keys

POSIX = pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
WHOSE = ("a3", "w25", "week 1")


def folder():
    """Where keys are kept by default."""
    return Path(os.environ["UNDERTOW_STATE"]) / "ledgers.db.keys"


def files():
    return sorted(folder().glob("*"))


def secret_of(ledger, release_id="r"):
    return ledger.release_key(release_id).exported()


def reserved(place, release_id="r"):
    ledger = place.open()
    ledger.reserve(release_id, EIGHTH)
    return ledger


# --- the life of a key ----------------------------------------------------------------------------


def test_a_release_has_one_key_until_it_is_recorded(place):
    ledger = reserved(place)
    assert not files()
    first = secret_of(ledger)
    assert {secret_of(one) for one in (ledger, place.open())} == {first}
    ledger.reserve("r", EIGHTH)
    ledger.begin("r")
    assert secret_of(ledger) == first
    ledger.reserve("other", EIGHTH)
    assert secret_of(ledger, "other") != first
    assert len(files()) == 2
    ledger.confirm("r", {"value": 1})
    assert len(files()) == 1
    with pytest.raises(LedgerConflict, match="second draw would be a second release"):
        ledger.release_key("r")
    ledger.cancel("other", "not wanted")
    assert not files()


def test_keys_of_other_data_sets_and_ledgers_are_other_keys(tmp_path):
    found = set()
    for name, dataset in (("a.db", "x"), ("a.db", "y"), ("b.db", "x")):
        ledger = Ledger(tmp_path / name, dataset, work.MODEL, work.LIMIT)
        ledger.reserve("r", EIGHTH)
        found.add(secret_of(ledger))
    assert len(found) == len(files()) == 3


def test_a_key_needs_a_reservation(sqlite_place):
    ledger = reserved(sqlite_place)
    with pytest.raises(LedgerConflict, match="nothing is reserved under the id 'week 9'"):
        ledger.release_key("week 9")
    ledger.cancel("r", "not wanted")
    with pytest.raises(LedgerConflict, match="nothing is reserved"):
        ledger.release_key("r")
    assert not files()


def test_without_a_memory_a_key_lasts_as_long_as_the_call(sqlite_place):
    ledger = sqlite_place.open(memory=False)
    ledger.reserve("r", EIGHTH)
    assert len({secret_of(ledger) for _ in range(3)}) == 3
    ledger.confirm("r", {"value": 1})
    assert not folder().exists()


def test_keys_lie_beside_a_memory_of_ones_own(sqlite_place, tmp_path):
    ledger = sqlite_place.open(memory=tmp_path / "mine")
    ledger.reserve("r", EIGHTH)
    secret_of(ledger)
    assert len([*(tmp_path / "mine.keys").iterdir()]) == 1
    assert not folder().exists()


@pytest.mark.parametrize("again", ["reserve", "release_key", "confirm", "of another"])
def test_a_key_that_a_killed_process_has_left_goes_with_the_next_call(
    sqlite_place, monkeypatch, again
):
    """Killed after the release was recorded, before its key was removed; the ledger stays open."""
    ledger = reserved(sqlite_place)
    secret_of(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Keys, "forget", lambda *_: None)
        ledger.confirm("r", {"value": 1})
    assert len(files()) == 1
    if again == "reserve":
        ledger.reserve("r", EIGHTH)
    elif again == "confirm":
        ledger.confirm("r", {"value": 2})
    elif again == "release_key":
        with pytest.raises(LedgerConflict):
            ledger.release_key("r")
    else:
        ledger.reserve("other", EIGHTH)
        secret_of(ledger, "other")
        assert len(files()) == 1
        ledger.confirm("other", {"value": 1})
    assert not files()


@pytest.mark.parametrize("how", ["confirmed", "cancelled"])
def test_opening_a_ledger_removes_the_keys_of_what_is_recorded(place, monkeypatch, how):
    """Of all its data sets, whichever is opened; other releases and ledgers keep theirs."""
    ledger = reserved(place)
    other = place.open("other")
    for one in (ledger, other):
        one.reserve("open", EIGHTH)
        one.reserve("gone", EIGHTH)
        secret_of(one, "open")
        secret_of(one, "gone")
    kept = secret_of(ledger, "open")
    elsewhere = Keys(folder())
    elsewhere.held("a3", "w25", "gone")
    assert len(files()) == 5
    with monkeypatch.context() as patch:
        patch.setattr(Keys, "forget", lambda *_: None)
        for one in (ledger, other):
            if how == "confirmed":
                one.confirm("gone", {"value": 1})
            else:
                one.cancel("gone", "not wanted")
    assert len(files()) == 5
    again = Ledger(place.where, "w25", create=False)
    assert len(files()) == 3
    assert secret_of(again, "open") == kept
    assert ("w25", "gone") in elsewhere.kept("a3")


def test_keys_of_releases_that_the_ledger_does_not_know_stay(sqlite_place):
    """The release may come back with the events of a newer copy: it is then drawn as before."""
    ledger = reserved(sqlite_place)
    ((own,),) = sqlite_place.forge("SELECT id FROM undertow_ledger")
    kept = Keys(folder()).held(own, "w25", "later").exported()
    sqlite_place.open()
    assert len(files()) == 1
    ledger.reserve("later", EIGHTH)
    assert secret_of(ledger, "later") == kept


def test_a_damaged_entry_leaves_its_key(sqlite_place):
    secret_of(reserved(sqlite_place))
    sqlite_place.forge("UPDATE undertow_events SET body = 'x' WHERE kind = 'reserve'")
    Ledger(sqlite_place.where, "w25", create=False)
    assert len(files()) == 1


# --- for its owner alone --------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277], ids=oct)
def test_nobody_else_may_read_a_key(tmp_path, umask):
    keys = Keys(tmp_path / "keys")
    before = os.umask(umask)
    try:
        one = keys.held(*WHOSE).exported()
        assert keys.held(*WHOSE).exported() == one
    finally:
        os.umask(before)
    (path,) = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@POSIX
def test_a_folder_that_others_may_enter_is_closed(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys").chmod(0o777)
    Keys(tmp_path / "keys").held(*WHOSE)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_a_key_is_overwritten_before_it_is_removed(tmp_path):
    keys = Keys(tmp_path / "keys")
    secret = keys.held(*WHOSE).exported()
    (path,) = (tmp_path / "keys").iterdir()
    with path.open("rb") as still_open:
        assert secret.hex() in still_open.read().decode()
        keys.forget(*WHOSE)
        still_open.seek(0)
        assert not any(still_open.read())
    assert not path.exists()
    keys.forget(*WHOSE)


def test_secrets_are_nowhere_else(sqlite_place, tmp_path, capfd):
    """Neither in the ledger nor in its memory, in no event, no message and no printed form."""
    ledger = reserved(sqlite_place)
    secret = secret_of(ledger)
    said = [repr(ledger), repr(ledger.entries()), repr(ledger._keys)]
    for attempt in (lambda: ledger.reserve("r", EIGHTH / 2), lambda: ledger.release_key("x")):
        with pytest.raises(LedgerConflict) as refusal:
            attempt()
        said.append(str(refusal.value))
    ledger.confirm("r", {"value": 1})
    with ledger._store.reading() as transaction:
        said += [event.body for event in transaction.events()]
    written = [path for root in (tmp_path, folder().parent) for path in root.rglob("*")]
    contents = [path.read_bytes() for path in written if path.is_file()]
    assert len(contents) >= 2
    contents += [text.encode() for text in (*said, *capfd.readouterr())]
    for form in (secret, secret.hex().encode(), repr(secret).encode()):
        assert not any(form in content for content in contents)


# --- files that are not to be trusted -------------------------------------------------------------


def _edited(**changes):
    def spoil(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return spoil


def _flipped(path):
    held = json.loads(path.read_text())
    held["secret"] = f"{int(held['secret'][0], 16) ^ 1:x}" + held["secret"][1:]
    path.write_text(json.dumps(held))


def _linked(path):
    copied = path.with_name("elsewhere")
    copied.write_bytes(path.read_bytes())
    copied.chmod(0o600)
    path.unlink()
    path.symlink_to(copied)


def _of_another(path):
    other = ("a3", "w25", "week 2")
    Keys(path.parent).held(*other)
    (made,) = set(path.parent.iterdir()) - {path}
    path.write_bytes(made.read_bytes())


SPOILT = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:50]),
    "empty": lambda path: path.write_bytes(b""),
    "overwritten": lambda path: path.write_bytes(bytes(200)),
    "no JSON object": lambda path: path.write_text("[1]"),
    "another format": _edited(format="undertow-key-2"),
    "no secret": _edited(secret=None),
    "a short secret": _edited(secret="00"),
    "one bit": _flipped,
    "of another release": _of_another,
    "a link": _linked,
    "open to a group": lambda path: path.chmod(0o640),
    "open to all": lambda path: path.chmod(0o604),
}


@POSIX
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_file_that_cannot_be_trusted_is_replaced(tmp_path, spoil):
    keys = Keys(tmp_path / "keys")
    first = keys.held(*WHOSE).exported()
    (path,) = (tmp_path / "keys").iterdir()
    spoil(path)
    second = keys.held(*WHOSE).exported()
    assert second not in (first, keys.held("a3", "w25", "week 2").exported())
    assert keys.held(*WHOSE).exported() == second
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@POSIX
def test_a_key_of_another_user_is_not_used(tmp_path, monkeypatch):
    keys = Keys(tmp_path / "keys")
    first = keys.held(*WHOSE).exported()
    real = module._own
    monkeypatch.setattr(
        module, "_own", lambda found: real(found) and stat.S_ISDIR(found.st_mode)
    )  # whoever owns the file, it is not we
    with pytest.warns(AccountWarning, match="cannot be kept"):
        assert keys.held(*WHOSE).exported() != first


def _a_file(place):
    place.write_text("mine")


def _a_link(place):
    (place.parent / "shared").mkdir()
    place.symlink_to(place.parent / "shared")


def _a_folder_in_its_place(place):
    Keys(place).held(*WHOSE)
    (path,) = place.iterdir()
    path.unlink()
    path.mkdir()


@POSIX
@pytest.mark.parametrize("spoil", [_a_file, _a_link, _a_folder_in_its_place])
def test_where_no_key_can_be_kept_a_warning_is_given_once(tmp_path, spoil):
    """Work goes on as without a memory: each call has a key of its own, and removes nothing."""
    spoil(tmp_path / "keys")
    keys = Keys(tmp_path / "keys")
    with pytest.warns(AccountWarning, match="draws anew.*UNDERTOW_STATE"):
        one = keys.held(*WHOSE).exported()
    assert keys.held(*WHOSE).exported() != one
    assert spoil is not _a_file or (tmp_path / "keys").read_text() == "mine"
    assert spoil is not _a_link or not any((tmp_path / "shared").iterdir())


def test_a_key_that_cannot_be_removed_is_told_of(tmp_path, monkeypatch):
    keys = Keys(tmp_path / "keys")
    keys.held(*WHOSE)

    def fail(*_, **__):
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.warns(AccountWarning, match="remove it by hand"):
        keys.forget(*WHOSE)


# --- races and kills ------------------------------------------------------------------------------


def _hold(where, gate, out):
    keys = Keys(Path(where))
    gate.wait()
    out.put(keys.held(*WHOSE).exported())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_racing_processes_agree_on_one_key(tmp_path):
    context = multiprocessing.get_context("fork")
    gate, queue = context.Barrier(4), context.SimpleQueue()
    racers = [
        context.Process(target=_hold, args=(str(tmp_path / "keys"), gate, queue)) for _ in range(4)
    ]
    for racer in racers:
        racer.start()
    found = {queue.get() for _ in racers}
    for racer in racers:
        racer.join()
    assert len(found) == 1
    assert len([*(tmp_path / "keys").iterdir()]) == 1


def test_racing_threads_agree_on_one_key(tmp_path, monkeypatch):
    """All have made a draft before the first gives it its name."""
    gate, found = threading.Barrier(6), []

    def reached(point):
        if point == "hold-written":
            gate.wait(30)

    monkeypatch.setattr(checkpoints, "reached", reached)
    keys = Keys(tmp_path / "keys")
    threads = [
        threading.Thread(target=lambda: found.append(keys.held(*WHOSE).exported()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert len([*(tmp_path / "keys").iterdir()]) == 1


def test_a_key_that_is_removed_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    keys, calls = Keys(tmp_path / "keys"), []

    def reached(point):
        calls.append(point)
        if point == "hold-written" and calls.count(point) == 1:
            keys.forget(*WHOSE)

    monkeypatch.setattr(checkpoints, "reached", reached)
    one = keys.held(*WHOSE).exported()
    assert calls.count("hold-written") == 2
    assert keys.held(*WHOSE).exported() == one


def run(what, task):
    """Do something in a process of its own, and return its exit code."""
    child = os.fork()
    if not child:
        work.leave(what, task)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _keyed_release(task):
    """Reserve, hold, write the key where the test sees it, confirm."""
    memory = Path(task.shown).with_name("memory.db")
    ledger = Ledger(task.where, work.DATASET, work.MODEL, work.LIMIT, memory=memory)
    if ledger.reserve("r", work.LEVEL).result is None:
        key = ledger.release_key("r").exported()
        ledger.begin("r")
        with Path(task.shown).open("ab") as file:
            file.write(key)
        ledger.confirm("r", {"value": 1})


HELD = ["hold-begun", "hold-written", "hold-committed"]
DRAWN = ["confirm-begun", "confirm-written"]
LATE = ["confirm-committed", "wipe-begun", "wipe-written", "wipe-committed"]


def _opened(task):
    """Open the ledger for something else."""
    Ledger(task.where, work.DATASET, memory=Path(task.shown).with_name("memory.db"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("point", LATE)
def test_killed_after_the_record_the_key_goes_when_the_ledger_is_opened(
    sqlite_place, tmp_path, point
):
    kept = tmp_path / "memory.db.keys"
    task = work.Task(sqlite_place.where, str(tmp_path / "shown"), "r", 0, point)
    assert run(_keyed_release, task) == work.KILLED
    assert len([*kept.iterdir()]) == (0 if point == "wipe-committed" else 1)
    assert run(_opened, work.Task(sqlite_place.where, str(tmp_path / "shown"), "r", 0)) == 0
    assert not [*kept.iterdir()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("point", HELD + DRAWN + LATE)
def test_killed_anywhere_one_key_is_used_and_none_is_left(sqlite_place, tmp_path, point):
    shown, kept = tmp_path / "shown", tmp_path / "memory.db.keys"
    killed = work.Task(sqlite_place.where, str(shown), "r", 0, point)
    assert run(_keyed_release, killed) == work.KILLED
    assert len([*kept.iterdir()]) == (0 if point == "wipe-committed" else 1)
    for path in kept.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert run(_keyed_release, work.Task(sqlite_place.where, str(shown), "r", 0)) == 0
    content = shown.read_bytes()
    uses = [content[n : n + 32] for n in range(0, len(content), 32)]
    assert len(uses) == (2 if point in DRAWN else 1)
    assert len(set(uses)) == 1
    assert not [*kept.iterdir()]
    (entry,) = Ledger(sqlite_place.where, work.DATASET, memory=False).entries()
    assert entry.status == "confirmed"
