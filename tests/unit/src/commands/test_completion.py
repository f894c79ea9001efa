"""The scripts for shells: real shells complete with them, and hostile names run nothing there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tpu_fleet.cli import main
from tpu_fleet.commands.completion import SHELLS

HOSTILE = [
    "$(touch ran)",
    "`touch ran`",
    "digits; touch ran",
    "digits\ntouch ran",
    "digits' $(touch ran)",
    "d*",
    "digits,plain,x",
    "digits\x1b]0;owned\x07",
]
ASK = {
    "bash": """
        source ./script
        COMP_WORDS=(tpu-fleet logs d) COMP_CWORD=2
        _tpu_fleet_completion tpu-fleet d logs
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": "source ./script; complete -C 'tpu-fleet logs d'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_or_written(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    printed = CliRunner().invoke(main, ["completion", shell])
    assert printed.exit_code == 0
    assert f"_TPU_FLEET_COMPLETE={shell}_complete" in printed.output
    assert list(tmp_path.iterdir()) == []
    done = CliRunner().invoke(main, ["completion", shell, "--install"])
    assert done.exit_code == 0, done.output
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.read_text() == printed.output
    assert str(path) in done.output


def test_the_shell_is_that_of_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert "#compdef tpu-fleet" in CliRunner().invoke(main, ["completion"]).output
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = CliRunner().invoke(main, ["completion"])
    assert refused.exit_code == 2
    assert "one of bash, zsh, fish" in refused.output


@pytest.mark.parametrize("shell", [name for name in ASK if shutil.which(name)])
def test_a_shell_completes_names_and_runs_none(shell: str, tmp_path: Path) -> None:
    inventory = str(tmp_path / "inventory")
    (tmp_path / "d-file-that-a-star-would-find").touch()
    digest = hashlib.sha256(inventory.encode()).hexdigest()[:24]
    names = tmp_path / "cache/tpu-fleet/names" / f"{digest}.json"
    names.parent.mkdir(parents=True)
    names.write_text(json.dumps({"runs": [*HOSTILE, "digits-pair", "digits-solo", "other"]}))
    (tmp_path / "script").write_text(CliRunner().invoke(main, ["completion", shell]).output)
    done = subprocess.run(
        [shell, "-c", ASK[shell]],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "ANSIBLE_INVENTORY": inventory,
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["digits-pair", "digits-solo"], done
    assert not (tmp_path / "ran").exists()
