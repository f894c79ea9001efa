"""What a machine that sets itself up trusts, and how often it tries."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import first
from ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup.publish import sign

ENDS = 'google-ssh {"userName":"x","expireOn":"2026-01-01T00:00:00+0000"}'


@pytest.mark.parametrize(
    ("own", "project", "blocked", "keys"),
    [
        ("ubuntu:ssh-ed25519 AAAA me@here", "", False, ["ssh-ed25519 AAAA"]),
        ("", "ubuntu:ssh-ed25519 BBBB", False, ["ssh-ed25519 BBBB"]),
        ("", "ubuntu:ssh-ed25519 BBBB", True, []),
        ("a:ssh-rsa A\nb:ssh-rsa A x", "c:ssh-rsa C", False, ["ssh-rsa A", "ssh-rsa C"]),
        (f"ubuntu:ssh-rsa AAAA {ENDS}", "", False, []),
        ("nonsense\n\nubuntu:", "", False, []),
    ],
)
def test_who_is_believed(own: str, project: str, blocked: bool, keys: list[str]) -> None:
    assert first.admitted(own, project, blocked) == keys


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(first, "RUNTIME", tmp_path / "run")
    found = []
    for name in ("ours", "other"):
        path = tmp_path / name
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
        subprocess.run(argv, check=True)
        found.append(path)
    return found


def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text().strip()


def test_only_what_is_signed_by_one_of_them(keys: list[Path]) -> None:
    ours, other = keys
    signature = sign("what it is", str(ours))
    first.verify("what it is", signature, [public(other), public(ours)])
    for text, signed, admitted in (
        ("what it is not", signature, [public(ours)]),
        ("what it is", sign("what it is", str(other)), [public(ours)]),
        ("what it is", signature, []),
        ("what it is", "", [public(ours)]),
    ):
        with pytest.raises(first.Trouble, match="not signed with a key"):
            first.verify(text, signed, admitted)


FLEET = {"project": "p", "owner": "managed"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"slice": "solo", "fleet": FLEET}, ""),
        ({"slice": "pair", "fleet": FLEET}, "belongs to pair"),
        # The same name and the same key, in another project, of another owner, of a version before.
        ({"slice": "solo", "fleet": {**FLEET, "project": "q"}}, "another fleet"),
        ({"slice": "solo", "fleet": {**FLEET, "owner": "lab"}}, "another fleet"),
        ({"slice": "solo"}, "Publish it again"),
    ],
)
def test_a_pointer_is_for_one_slice_of_one_fleet(
    said: dict[str, Any], why: str, keys: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(said)
    envelope = json.dumps({"pointer": text, "signature": sign(text, str(keys[0]))})
    monkeypatch.setattr(
        first,
        "metadata",
        lambda path, _other: f"me:{public(keys[0])}" if "ssh-keys" in path else "",
    )
    source = mock.Mock(read=lambda _name: envelope.encode())
    if why:
        with pytest.raises(first.Trouble, match=why):
            first.pointer_of(source, "solo", FLEET)
    else:
        assert first.pointer_of(source, "solo", FLEET) == said


def test_a_key_that_cannot_sign_is_named(tmp_path: Path) -> None:
    key = tmp_path / "locked"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)]
    subprocess.run(argv, check=True)
    with pytest.raises(Exception, match=f"cannot be signed with {key}"):
        sign("text", str(key))


@pytest.mark.parametrize(
    ("status", "known", "over"),
    [
        ({}, False, False),
        ({"state": "waiting"}, False, False),
        # A controller was here, and we had begun nothing.
        ({}, True, True),
        ({"state": "waiting"}, True, True),
        # We had, and a reboot came in between.
        ({"state": "begun"}, True, False),
        ({"state": "failed"}, True, False),
        ({"state": "done"}, True, True),
        ({"state": "left"}, True, True),
    ],
)
def test_when_there_is_nothing_to_do(
    status: dict[str, Any], known: bool, over: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first, "STATUS", tmp_path / "status.json")
    monkeypatch.setattr(first, "KNOWN", tmp_path / "known.json")
    if status:
        first.note(**status)
    if known:
        first.KNOWN.touch()
    assert first.is_over() is over


def test_it_tries_again_until_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "STATUS", tmp_path / "status.json")
    monkeypatch.setattr(first, "KNOWN", tmp_path / "known.json")
    answers: list[Exception | None] = [
        first.Trouble("the bucket is away"),
        OSError("no network"),
        *[first.Trouble("still")] * 8,
        None,
    ]
    seen: list[Any] = []
    pauses: list[float] = []

    def once(_config: Any) -> None:
        answer = answers.pop(0)
        if answer:
            raise answer
        first.note("done")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        seen.append(first.read_status())

    monkeypatch.setattr(first, "once", once)
    monkeypatch.setattr(first.time, "sleep", sleep)
    assert first.main({}) == 0
    assert first.read_status()["state"] == "done"
    assert [status["state"] for status in seen] == ["waiting"] * 10
    assert seen[0]["why"] == "the bucket is away"
    assert pauses[0] < 7
    assert 200 < pauses[-1] < 400


def test_a_share_is_mounted_for_reading_and_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first, "RUNTIME", tmp_path)
    monkeypatch.setattr(first.shutil, "which", lambda _name: None)
    mounted: list[bool] = []
    monkeypatch.setattr(first.os.path, "ismount", lambda _path: bool(mounted))
    asked = []

    def run(*argv: str) -> None:
        asked.append(argv[0] if argv[0] != "apt-get" else argv[-1])
        if argv[0] == "mount":
            mounted.append(True)
            assert argv[-2] == "10.0.0.9:/volume1/fleet"
            assert "ro," in argv[4]
            (Path(argv[-1]) / "files").mkdir()
            (Path(argv[-1]) / "files" / "a").write_bytes(b"content")

    monkeypatch.setattr(first, "_run", run)
    share = first.source_of({"server": "10.0.0.9", "export_path": "/volume1/fleet"})
    assert share.read("files/a") == b"content"
    with pytest.raises(first.NotThere):
        share.read("files/b")
    share.close()
    assert asked == ["update", "nfs-common", "mount", "umount"]
