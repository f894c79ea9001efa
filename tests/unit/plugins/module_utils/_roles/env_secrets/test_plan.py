"""What a set of secrets becomes, and that its content is shown nowhere."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import UserError
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets import act as files
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets import plan as rules
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets.rules import (
    check_env_secrets,
    check_uses,
)

ODD = {
    "QUOTES": "a \"b\" 'c' `d` \\ $HOME ${HOME} $(id) %n # ; =x ",
    "LINES": "one\n\ttwo \\\nthree\n",
    "SIGNS": "Zürich 東京 🚀",
    "ENDS": "\\",
}


NO_NAME = "is not the name of an environment variable"
NO_PATH = "is not a plain whole path"


def problems(**entry: Any) -> list[str]:
    found = rules.problems_of({"name": "one", **entry})
    return [f"{key}: {message}" for key, message, _remedy in found]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_reads_what_was_written(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "one.env"
    path.write_text(rules.env_file(ODD))
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    script = f'set -a; . "{path}"; set +a; exec "{sys.executable}" -c \'{show}\''
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert {name: seen.get(name) for name in ODD} == ODD


def test_the_program_reads_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).resolve().parents[6] / "roles/env_secrets/files"
    monkeypatch.syspath_prepend(str(folder))
    import tpu_fleet_secrets as program

    assert program.parse(rules.env_file(ODD)) == ODD
    assert program.parse(program.env_file(ODD)) == ODD


@pytest.mark.parametrize("kind", ["huge", "pipe", "no text"])
def test_a_set_that_its_owner_spoilt_is_refused_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(__file__).resolve().parents[6] / "roles/env_secrets/files"
    monkeypatch.syspath_prepend(str(folder))
    import tpu_fleet_secrets as program

    known = rules.SecretSet("hers", "root", {}, {}, {})
    (tmp_path / "hers.json").write_text(rules.description(known, "", []))
    path = tmp_path / "hers.env"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff\n")
    if kind == "huge":
        os.truncate(path, 1 << 43)
    with pytest.raises(program.CannotGet, match="remove it and run configure"):
        program.read_set("hers", "", tmp_path)


def test_root_fetches_for_who_may_use_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(__file__).resolve().parents[6] / "roles/env_secrets/files"
    monkeypatch.syspath_prepend(str(folder))
    import tpu_fleet_secrets as program

    owner = pwd.getpwuid(os.geteuid())
    known = rules.SecretSet("cloud", owner.pw_name, {}, {}, {"FROM_GOOGLE": "name"})
    (tmp_path / "cloud.json").write_text(rules.description(known, "https://x.googleapis.com", []))
    (tmp_path / "cloud.env").write_text(rules.env_file({}))
    monkeypatch.setattr(program, "token", lambda: "token")
    monkeypatch.setattr(program, "access", lambda *_: ODD["QUOTES"])
    for user in ("", owner.pw_name):
        program.fetch("cloud", user, tmp_path / "run", tmp_path)
    (written,) = (tmp_path / "run").iterdir()
    assert written.name == "cloud.env"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert program.parse(written.read_text()) == {"FROM_GOOGLE": ODD["QUOTES"]}
    others = rules.SecretSet("cloud", "nobody")
    (tmp_path / "cloud.json").write_text(rules.description(others, "", []))
    with pytest.raises(program.CannotGet, match="nobody's, not daemon's"):
        program.read_set("cloud", "daemon", tmp_path)
    assert program.read_set("cloud", "", tmp_path)["owner"] == "nobody"
    # What was fetched before is no way around it.
    with pytest.raises(program.CannotGet, match="nobody's, not daemon's"):
        program.fetch("cloud", "daemon", tmp_path / "run", tmp_path)
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("endpoint", "may"),
    [
        ("https://secretmanager.googleapis.com", True),
        ("https://secretmanager.googleapis.com/", True),
        ("http://169.254.169.254", True),
        ("http://secretmanager.googleapis.com", False),
        ("https://googleapis.com.example.net", False),
        ("https://notgoogleapis.com", False),
        ("http://169.254.169.254:8080", False),
        ("http://127.0.0.1:8470", False),
        ("file:///etc/passwd", False),
    ],
)
def test_where_the_token_goes(endpoint: str, may: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).resolve().parents[6] / "roles/env_secrets/files"
    monkeypatch.syspath_prepend(str(folder))
    import tpu_fleet_secrets as program

    assert program.may_have_the_token(endpoint) is may


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"env": {"A": "x", "B_2": 5}}, []),
        ({"env": {"A": ""}}, ["env.A: is empty"]),
        ({"env": {"A": None}}, ["env.A: is empty"]),
        ({"env": {"A": True}}, ["env.A: is not a string"]),
        ({"env": {"A": "hush\r\n"}}, ["env.A: has a control character"]),
        ({"env": {"A B": "x"}}, [f"env.A B: {NO_NAME}"]),
        ({"files": [{"path": "~/a", "content": "x"}]}, []),
        ({"files": [{"path": "~/../a", "content": "x"}]}, [f"files[0].path: {NO_PATH}"]),
        ({"files": [{"path": "a", "content": "x"}]}, [f"files[0].path: {NO_PATH}"]),
        ({"files": [{"path": "/a", "content": ""}]}, ["files[0].content: is empty"]),
        ({"google_secrets": {"A": "name/versions/3", "B": "projects/p/secrets/n"}}, []),
        ({"google_secrets": {"A": "a b"}}, ["google_secrets.A: is not the name of a secret"]),
        (
            {"env": {"A": "x"}, "google_secrets": {"A": "n"}},
            ["google_secrets.A: is also in env"],
        ),
        ({"preset": "wandb", "values": {"api_key": "x"}}, []),
        ({"preset": "wandb"}, ["values.api_key: is missing, but preset wandb needs it"]),
        ({"preset": "wandb", "google_secrets": {"WANDB_API_KEY": "n"}}, []),
        (
            {"preset": "hugging_face", "values": {"token": "x", "api_key": "y"}},
            ["values.api_key: is not a value of preset hugging_face"],
        ),
        ({"values": {"token": "x"}}, ["values: needs a preset"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set(entry: dict[str, Any], wrong: list[str]) -> None:
    assert problems(**entry) == wrong


def test_presets_are_what_the_tools_read() -> None:
    def resolved(preset: str, **values: str) -> rules.SecretSet:
        write = ["files", "env"]
        return rules.resolve({"name": "n", "preset": preset, "values": values, "write": write}, "p")

    wandb = resolved("wandb", api_key="k", base_url="https://wandb.example.com:8080/")
    assert wandb.variables == {
        "WANDB_API_KEY": "k",
        "WANDB_BASE_URL": "https://wandb.example.com:8080/",
    }
    assert wandb.files == {"~/.netrc": "machine wandb.example.com\n  login user\n  password k\n"}
    assert resolved("hugging_face", token="t").files == {"~/.cache/huggingface/token": "t"}
    aws = resolved("aws", access_key_id="i", secret_access_key="s%", region="r")
    assert aws.variables["AWS_DEFAULT_REGION"] == "r"
    assert aws.files == {
        "~/.aws/credentials": "[default]\naws_access_key_id = i\naws_secret_access_key = s%\n"
    }


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("n", "projects/own/secrets/n/versions/latest"),
        ("n/versions/3", "projects/own/secrets/n/versions/3"),
        ("projects/other/secrets/n", "projects/other/secrets/n/versions/latest"),
    ],
)
def test_whole_names_of_google_secrets(name: str, full: str) -> None:
    assert rules.full_name(name, "own") == full


FILE = {"kind": "file", "mode": 0o600, "uid": 7}


@pytest.mark.parametrize(
    ("seen", "wanted", "known", "says"),
    [
        ({"kind": "absent"}, "new", [], "write"),
        ({"kind": "absent"}, None, ["old"], "same"),
        ({**FILE, "fingerprint": "new"}, "new", [], "same"),
        ({**FILE, "fingerprint": "new", "mode": 0o644}, "new", [], "write"),
        ({**FILE, "fingerprint": "old"}, "new", ["old"], "write"),
        ({**FILE, "fingerprint": "old"}, None, ["old"], "remove"),
        ({**FILE, "fingerprint": "theirs"}, None, ["old"], "keep"),
        ({**FILE, "fingerprint": "theirs"}, "new", ["old"], "it was changed on the host"),
        ({**FILE, "fingerprint": "theirs"}, "new", [], "this role did not write"),
        ({"kind": "link"}, "new", ["old"], "there is a link"),
        ({"kind": "directory"}, "new", [], "there is a directory"),
    ],
)
def test_what_becomes_of_a_file(
    seen: dict[str, Any], wanted: str | None, known: list[str], says: str
) -> None:
    assert says in rules.verdict(rules.Seen(**seen), wanted, known, 7)


def test_only_owners_are_exported_to() -> None:
    login = rules.SecretSet("one", "alice", {"A": "x"}, login=True)
    silent = rules.SecretSet("two", "alice", {"A": "x"})
    text = rules.profile([login, silent], "/etc/tpu-fleet/secrets")
    assert "in one;" in text
    assert "-O" in text
    assert rules.profile([silent], "/x") == ""


def test_what_everybody_may_know_holds_no_value() -> None:
    one = rules.SecretSet("one", "alice", {"A": "hush"}, {"~/f": "hush"}, {"B": "n"})
    assert "hush" not in rules.description(one, "https://e", ["/home/alice/f"])


@pytest.mark.parametrize(("mode", "who"), [(0o757, "all users"), (0o1777, "all users")])
def test_no_secret_where_others_could_put_another(mode: int, who: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(UserError, match=f"home can be written by {who}"):
        files.write_file(str(home / "token"), "x")
    assert list(home.iterdir()) == []


def test_the_fleet_file_is_told_without_values() -> None:
    data = {
        "fleet_users": [{"name": "alice"}, {"name": "bob"}],
        "fleet_slices": [{"name": "pair"}],
        "fleet_secrets": [
            {"name": "a", "user": "alice", "env": {"A": "hush\x01"}, "slices": ["solo"]},
            {"name": "b", "user": "carol"},
        ],
    }
    found = [str(problem) for problem in check_env_secrets(data)]
    assert len(found) == 3
    assert "hush" not in " ".join(found)
    run = {"secrets": ["a", "c"]}
    mine = [str(problem) for problem in check_uses(data, "run", run, "alice")]
    assert [said.partition(" ")[0] for said in mine] == ["run.secrets[1]"]
    theirs = [str(problem) for problem in check_uses(data, "run", run, "bob")]
    assert "belongs to alice, not to bob" in theirs[0]
