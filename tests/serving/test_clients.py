"""The file of clients: hashes of tokens, written whole, refused when it is something else."""

import json
import threading
from typing import Any

import pytest

from undertow.errors import InvalidInput
from undertow.serving.accounts import Client, Clients, changing


def test_a_file_goes_round_and_holds_no_token(tmp_path):
    path = tmp_path / "clients.json"
    clients, token = Clients(()).add("airflow", ("spend", "limit"), ("w25",))
    clients.write(path)
    assert Clients.read(path) == clients
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert [file.name for file in tmp_path.iterdir()] == ["clients.json"]
    assert clients.remove("airflow") == Clients(())


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"format": "undertow-clients-1"}',
        '{"format": "undertow-clients-1", "clients": [{"name": "a"}]}',
        '{"format": "undertow-clients-1", "clients": [1]}',
        '{"format": "undertow-clients-1", "clients": ' + "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_file_of_clients_is_refused(tmp_path, content):
    path = tmp_path / "clients.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="no file of clients"):
        Clients.read(path)


def test_bad_clients_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot read"):
        Clients.read(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="cannot write"):
        Clients(()).write(tmp_path / "no" / "folder.json")
    for bad in (
        {"roles": ()}, {"roles": ("own",)}, {"roles": ("read", "read")}, {"datasets": ()},
        {"digest": "0" * 63}, {"digest": "Z" * 64}, {"name": ""},
    ):  # fmt: skip
        fields: Any = {"name": "a", "roles": ("read",), "datasets": None, "digest": "0" * 64, **bad}
        with pytest.raises(InvalidInput):
            Client(**fields)
    twice = Client("a", ("read",), None, "0" * 64)
    with pytest.raises(InvalidInput, match="same name"):
        Clients((twice, twice))
    with pytest.raises(InvalidInput, match="already"):
        Clients((twice,)).add("a", ("read",))
    with pytest.raises(InvalidInput, match="no client"):
        Clients((twice,)).remove("b")


def test_edited_files_are_checked_field_by_field(tmp_path):
    path = tmp_path / "clients.json"
    clients, _ = Clients(()).add("airflow", ("read",))
    clients.write(path)
    content = json.loads(path.read_text())
    content["clients"][0]["roles"] = ["own"]
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="roles"):
        Clients.read(path)


def test_changes_at_once_are_all_made(tmp_path):
    """A client that is removed while others are added stays removed."""
    path, names = tmp_path / "clients.json", [f"c{number}" for number in range(8)]

    def add(gate, name):
        gate.wait()
        with changing(path) as known:
            known.add(name, ("read",))[0].write(path)

    for _ in range(5):
        Clients(()).add("old", ("spend",))[0].write(path)
        gate = threading.Barrier(len(names) + 1)
        racers = [threading.Thread(target=add, args=(gate, name)) for name in names]
        for racer in racers:
            racer.start()
        gate.wait()
        with changing(path) as known:
            known.remove("old").write(path)
        for racer in racers:
            racer.join()
        assert sorted(client.name for client in Clients.read(path).listed) == names


def test_a_lock_nobody_can_make_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot write beside"), changing(tmp_path / "no" / "c"):
        pass
