"""What the agent does as root, before it gives root's rights up."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest
from dataset_agent import cli
from dataset_agent.decide.config import Config, config_of

ME = pwd.getpwuid(os.getuid())
PROGRAM = """\
import json, sys
if "bad" in sys.argv:
    sys.exit("there is no set of secrets bad on this host")
print(json.dumps({"HF_TOKEN": "hf_secret"} if "hf" in sys.argv else {}))
"""


def config(folder: Path, worker: int = 0, **more: object) -> Config:
    entry = {"name": "set", "id": "0" * 16, "source": "hf://lab/set", "size": 1}
    told = {
        "datasets": [{**entry, "path": str(folder / "data" / "set"), **more}],
        "hosts": ["127.0.0.1"],
        "worker": worker,
        "port": 0,
    }
    return config_of(told, "key")


@pytest.mark.parametrize(
    ("secrets", "token", "blocked"),
    [
        (["hf"], "hf_secret", ""),
        ([], "", ""),
        (["other"], None, "the secrets other have no HF_TOKEN"),
        (["bad"], None, "there is no set of secrets bad on this host"),
    ],
)
def test_the_hubs_token_comes_out_of_the_sets_of_secrets(
    tmp_path: Path, secrets: list[str], token: str | None, blocked: str
) -> None:
    program = tmp_path / "secrets.py"
    program.write_text(PROGRAM)
    agent = cli.prepared(config(tmp_path, secrets=secrets), ME, tmp_path / "status", program)
    assert agent.config.tokens.get("set") == token
    assert agent.blocked == ({"set": blocked} if blocked else {})
    assert (tmp_path / "data/set").is_symlink()


def test_a_user_who_is_not_there_blocks_the_data_set(tmp_path: Path) -> None:
    agent = cli.prepared(config(tmp_path, user="no-such"), ME, tmp_path / "status", tmp_path)
    assert agent.blocked == {"set": "user = 'no-such' is not a user of this host"}


def test_what_of_the_environment_stays() -> None:
    given = {"SSL_CERT_FILE": "/a", "HTTPS_PROXY": "b", "no_proxy": "c", "PYTHONPATH": "d"}
    assert set(cli.machines(given)) == {"SSL_CERT_FILE", "HTTPS_PROXY", "no_proxy"}


def test_the_whole_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {"config": tmp_path / "c.json", "key": tmp_path / "key", "status": tmp_path / "status"}
    paths["config"].write_text(
        json.dumps({"datasets": [], "hosts": ["127.0.0.1"], "worker": 0, "port": 0})
    )
    taken: list[str] = []
    monkeypatch.setattr(cli, "take_rights", lambda account: taken.append(account.pw_name))
    words = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    assert cli.main([*words, "--account", ME.pw_name]) == 0
    assert taken == [ME.pw_name]
