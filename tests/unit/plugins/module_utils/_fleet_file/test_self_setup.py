"""Where machines set themselves up from, and the startup script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import first
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import (
    check_self_setup,
    fleet_of,
    place_of,
    startup_script,
)

NFS = {"server": "10.0.0.9", "export_path": "/volume1/fleet", "local_path": "/mnt/fleet"}


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
        ({**NFS, "local_path": ""}, "fleet_self_setup.local_path", "is missing"),
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
    script = startup_script({"bucket": "lab"}, "solo", fleet_of("p", None), own)
    ended, told, begun = boots(script, tmp_path)
    assert (ended, told) == (code, output)
    assert "--unit=tpu-fleet-self-setup" in begun
    assert '"slice": "solo"' in begun[-1]
    assert '"fleet": {"owner": "managed", "project": "p"}' in begun[-1]
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
