"""The person whose key is here, and that OpenSSH itself verifies what is signed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.queue.sign import NAMESPACE, SignError, people_of, signer_of

NO_KEY = Path("/none/key")


def make_key(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a b", "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_name(f"{path.name}.pub").read_text().strip()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "login")
    return tmp_path


def users(**keys: str) -> list[dict[str, Any]]:
    return [{"name": name, "keys": [key]} for name, key in keys.items()]


def verified(signature: str, text: str, key: str, person: str, folder: Path) -> bool:
    (folder / "allowed").write_text(f'{person} namespaces="{NAMESPACE}" {key}\n')
    (folder / "signature").write_text(signature)
    words = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", person]
    words += ["-f", str(folder / "allowed"), "-s", str(folder / "signature")]
    done = subprocess.run(words, input=text.encode(), capture_output=True, check=False)
    return done.returncode == 0


def test_the_person_is_the_one_whose_key_is_here(home: Path) -> None:
    key = make_key(home / ".ssh/id_ed25519")
    other = make_key(home / "other")
    signer = signer_of(users(alice=key, bob=other), None, NO_KEY)
    assert signer.person == "alice"
    text = '{"command":["ü"]}'
    signature = signer.sign(text)
    assert verified(signature, text, key, "alice", home)
    assert not verified(signature, text + " ", key, "alice", home)
    assert not verified(signature, text, other, "alice", home)


def test_a_key_that_is_named_comes_first(home: Path) -> None:
    key, other = make_key(home / ".ssh/id_ed25519"), make_key(home / "other")
    people = users(alice=key, bob=other)
    assert signer_of(people, "~/other", NO_KEY).person == "bob"
    assert signer_of(people, str(home / "other.pub"), NO_KEY).person == "bob"
    (home / "other.pub").unlink()
    assert signer_of(people, "~/other", NO_KEY).person == "bob"


def test_the_login_key_of_the_fleet_is_the_last_choice(home: Path) -> None:
    login = make_key(home / "fleet")
    signer = signer_of(users(alice=login), None, home / "fleet")
    assert (signer.person, signer.key.path) == ("alice", str(home / "fleet"))


def test_keys_of_two_people_need_a_choice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = users(alice=make_key(home / ".ssh/a"), bob=make_key(home / ".ssh/b"))
    with pytest.raises(SignError, match="Keys of alice and bob are here"):
        signer_of(people, None, NO_KEY)
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    assert signer_of(people, None, NO_KEY).person == "bob"


def test_a_key_of_nobody_is_refused_with_what_to_do(home: Path) -> None:
    people = users(alice=make_key(home / "alice"))
    with pytest.raises(SignError, match=r"None of the 0 SSH keys here is .* fleet_users \(alice\)"):
        signer_of(people, None, NO_KEY)
    make_key(home / "mine")
    with pytest.raises(SignError, match=r"The key .*mine is not that of a person in fleet_users"):
        signer_of(people, str(home / "mine"), NO_KEY)
    with pytest.raises(SignError, match="there is no such file"):
        signer_of(people, str(home / "nothing"), NO_KEY)


def test_a_key_of_the_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(home / "elsewhere")
    socket = home / "agent"
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        add = ["ssh-add", "-q", str(home / "elsewhere")]
        for _ in range(100):
            if subprocess.run(add, capture_output=True, check=False).returncode == 0:
                break
        (home / "elsewhere").unlink()
        signer = signer_of(users(alice=key), None, NO_KEY)
        assert signer.key.path == ""
        assert verified(signer.sign("x"), "x", key, "alice", home)
    finally:
        agent.terminate()
        agent.wait()


def test_a_damaged_key_is_an_error(home: Path) -> None:
    key = make_key(home / "damaged")
    (home / "damaged").write_text("no key\n")
    signer = signer_of(users(alice=key), str(home / "damaged"), NO_KEY)
    with pytest.raises(SignError, match="ssh-keygen failed: "):
        signer.sign("x")


def test_people_have_keys_and_are_there() -> None:
    found = people_of(
        [
            {"name": "alice", "keys": ["ssh-ed25519 AAAA a\nssh-rsa BBBB"]},
            {"name": "bob", "keys": ["ssh-ed25519 CCCC"], "state": "absent"},
            {"name": "carol"},
        ]
    )
    assert found == {"alice": {"ssh-ed25519 AAAA", "ssh-rsa BBBB"}}
