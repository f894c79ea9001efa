"""Machines that set themselves up: the startup script, whom they believe, what they make of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import boot, first
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import (
    check_self_setup,
    place_of,
    startup_script,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.self_setup_publish import sign

NFS = {"server": "10.0.0.9", "export_path": "/volume1/fleet", "folder": "/mnt/fleet"}


@pytest.mark.parametrize(
    ("place", "field", "words"),
    [
        ({"bucket": "gs://lab/fleet/a"}, None, ""),
        ({"bucket": "lab"}, None, ""),
        (NFS, None, ""),
        ({}, "fleet_slices[0].self_setup", "needs a place"),
        ({"bucket": "lab", **NFS}, "fleet_self_setup", "has bucket and server"),
        ({"endpoint": "https://storage.googleapis.com"}, "fleet_self_setup", "says no place"),
        ({"bucket": "Lab bucket"}, "fleet_self_setup.bucket", "is not a bucket with a folder"),
        ({"bucket": "lab/a?b"}, "fleet_self_setup.bucket", "is not a bucket with a folder"),
        ({"bukcet": "lab"}, "fleet_self_setup.bukcet", "Did you mean bucket?"),
        ({**NFS, "folder": ""}, "fleet_self_setup.folder", "is missing"),
        ({**NFS, "export_path": "volume1"}, "fleet_self_setup.export_path", "no whole path"),
        ({"bucket": "lab", "endpoint": "http://169.254.169.254"}, None, ""),
        (
            {"bucket": "lab", "endpoint": "https://googleapis.com.example.org"},
            "fleet_self_setup.endpoint",
            "may see the machines' tokens",
        ),
        (
            {"bucket": "lab", "endpoint": "http://storage.googleapis.com"},
            "fleet_self_setup.endpoint",
            "may see the machines' tokens",
        ),
    ],
)
def test_where_it_may_be(place: dict[str, str], field: str | None, words: str) -> None:
    data = {"fleet_self_setup": place, "fleet_slices": [{"name": "solo", "self_setup": True}]}
    problems = check_self_setup(data)
    assert [problem.field for problem in problems] == ([field] if field else [])
    assert words in "".join(map(str, problems))


def test_two_startup_scripts_are_one_too_many() -> None:
    entry = {"name": "solo", "self_setup": True, "metadata": {"startup-script": "x"}}
    data = {"fleet_self_setup": {"bucket": "lab"}, "fleet_slices": [entry]}
    assert "startup_script" in str(check_self_setup(data)[0])


def boots(script: str, folder: Path) -> tuple[int, str, list[str]]:
    """Run a startup script elsewhere; return how it ended, and what it began beside the boot."""
    tools = folder / "tools"
    tools.mkdir()
    begins = tools / "systemd-run"
    begins.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done > {folder}/begun\n')
    begins.chmod(0o755)
    path = folder / "script"
    path.write_text(script.replace("/run/tpu-fleet", str(folder / "run")))
    env = {"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(folder)}
    done = subprocess.run(
        ["sh", str(path)], capture_output=True, text=True, env=env, check=False, cwd=folder
    )
    return done.returncode, done.stdout + done.stderr, (folder / "begun").read_text().splitlines()


@pytest.mark.parametrize(
    ("own", "code", "output"),
    [
        ("", 0, ""),
        ("echo $((1 + 1)) '$x\\'; exit 7", 7, "2 $x\\\n"),
        ("#!/usr/bin/python3\nprint('''END\n`date` $HOME''')\n", 0, "END\n`date` $HOME\n"),
        ("[[ a == a ]] && echo bash", 0, "bash\n"),
    ],
)
def test_the_own_script_is_run_as_it_is(own: str, code: int, output: str, tmp_path: Path) -> None:
    script = startup_script({"bucket": "lab"}, "solo", own)
    ended, told, begun = boots(script, tmp_path)
    assert (ended, told) == (code, output)
    assert "--unit=tpu-fleet-self-setup" in begun
    assert '"slice": "solo"' in begun[-1]
    program = Path(begun[-2])
    written = Path(first.__file__).read_text()
    assert program.read_text() == written.replace("/run/tpu-fleet", str(tmp_path / "run"))
    # Google takes 256 kB.
    assert len(script) < 20_000


def test_places_as_machines_need_them() -> None:
    endpoint = "https://storage.googleapis.com"
    assert place_of({"bucket": "gs://lab/a/b/"}) == {
        "bucket": "lab",
        "prefix": "a/b/",
        "endpoint": endpoint,
    }
    assert place_of({"bucket": "lab"})["prefix"] == ""
    assert place_of(NFS) == {"server": "10.0.0.9", "export_path": "/volume1/fleet"}


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
        with pytest.raises(first.Trouble, match="signed by none of the keys"):
            first.verify(text, signed, admitted)


def test_a_key_that_cannot_sign_is_named(tmp_path: Path) -> None:
    key = tmp_path / "locked"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)]
    subprocess.run(argv, check=True)
    with pytest.raises(Exception, match=f"cannot be signed with {key}"):
        sign("text", str(key))


OLD = [
    {"internal_ip": "10.0.0.2", "external_ip": "34.1.1.1"},
    {"internal_ip": "10.0.0.3", "external_ip": "34.1.1.2"},
]


def test_what_was_said_of_the_earlier_machines_is_said_of_these() -> None:
    here = boot.Machine("222", "us-central2-b", 1, ["10.0.0.3", "10.0.0.20"], "34.9.9.9")
    instead = here.instead_of("111", OLD)
    given = {
        "hosts": ["10.0.0.2", "10.0.0.3"],
        "url": "http://10.0.0.2:8080/x?host=10.0.0.3",
        "others": "10.0.0.22 110.0.0.2 10.0.0.2.5 34.1.1.2",
        "uid": "111",
        "number": 111,
    }
    assert boot.rewritten(given, instead) == {
        # They changed places: nothing is rewritten twice.
        "hosts": ["10.0.0.3", "10.0.0.20"],
        "url": "http://10.0.0.3:8080/x?host=10.0.0.20",
        "others": "10.0.0.22 110.0.0.2 10.0.0.2.5 34.9.9.9",
        "uid": "222",
        "number": 111,
    }
    assert boot.rewritten(given, {}) == given


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("t1v-n-1-w-0:123:10.0.0.2", "10.0.0.2"),
        ("localhost", "127.0.0.1"),
        (" 10.0.0.2", "10.0.0.2"),
    ],
)
def test_where_workers_are(endpoint: str, found: str) -> None:
    assert boot.address(endpoint) == found


def test_what_the_machine_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "instance/attributes/tpu-env": "UID: '77'\nZONE: 'europe-west4-a'\nWORKER_ID: '1'\n",
        "instance/attributes/agent-worker-number": "1",
        "instance/attributes/worker-network-endpoints": "a:77:10.0.0.8,b:77:10.0.0.9",
        "instance/network-interfaces/0/access-configs/0/external-ip": "",
    }
    monkeypatch.setattr(first, "metadata", lambda path, _otherwise=None: told[path])
    here = boot.machine().variables()
    assert here == {
        "tpu_vm_uid": "77",
        "tpu_vm_zone": "europe-west4-a",
        "tpu_vm_worker_index": 1,
        "tpu_vm_worker_count": 2,
        "tpu_vm_internal_ip": "10.0.0.9",
        "tpu_vm_external_ip": None,
        "tpu_vm_slice_hosts": ["10.0.0.8", "10.0.0.9"],
        "tpu_vm_state": "READY",
    }


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
