"""What is found on a computer before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import responses

from tpu_fleet.begin import look

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
ENDPOINT = "http://127.0.0.1:9/"


def gcloud(folder: Path, text: str, active: str = "work") -> dict[str, str]:
    (folder / "configurations").mkdir()
    (folder / "active_config").write_text(f"{active}\n")
    (folder / "configurations" / "config_work").write_text(text)
    return {"CLOUDSDK_CONFIG": str(folder)}


@pytest.mark.parametrize(
    ("text", "project"),
    [
        ("[core]\nproject = lab\n[compute]\nzone = x\n", "lab"),
        ("[core]\naccount = a\n", ""),
        ("rubbish", ""),
        ("[core]\nproject = 50%\n", "50%"),
    ],
)
def test_the_project_of_gcloud(tmp_path: Path, text: str, project: str) -> None:
    assert look.gcloud_setting(gcloud(tmp_path, text), "core", "project") == project


def test_the_environment_comes_first_and_nothing_is_needed(tmp_path: Path) -> None:
    environment = gcloud(tmp_path, "[core]\nproject = lab\n")

    def project(**more: str) -> str:
        return look.gcloud_setting({**environment, **more}, "core", "project")

    assert project() == "lab"
    assert project(CLOUDSDK_CORE_PROJECT="other") == "other"
    assert project(CLOUDSDK_ACTIVE_CONFIG_NAME="none") == ""
    assert project(CLOUDSDK_CONFIG=str(tmp_path / "nowhere")) == ""
    zone = look.gcloud_setting({"CLOUDSDK_COMPUTE_ZONE": "us-central2-b"}, "compute", "zone")
    assert zone == "us-central2-b"


def test_credentials_are_a_file(tmp_path: Path) -> None:
    environment = {"CLOUDSDK_CONFIG": str(tmp_path)}
    assert not look.has_credentials(environment)
    (tmp_path / look.CREDENTIALS).touch()
    assert look.has_credentials(environment)
    missing = {**environment, "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "missing.json")}
    assert not look.has_credentials(missing)


def test_own_keys_are_public_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert look.own_keys() == ()
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "id.pub").write_text(f"{KEY} me@laptop\n")
    (ssh / "private.pub").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (ssh / "binary.pub").write_bytes(b"\xff\xfe")
    (ssh / "empty.pub").touch()
    assert look.own_keys() == (f"{KEY} me@laptop",)


def test_a_key_is_shown_by_its_fingerprint_and_cannot_move_the_cursor() -> None:
    shown = look.key_line(f"{KEY} \x1b[2Jme\x07")
    assert shown.startswith("ssh-ed25519 SHA256:")
    assert not any(char in shown for char in "\x1b\x07")


def test_a_key_is_shown_whatever_separates_its_parts() -> None:
    assert look.key_line(KEY.replace(" ", "\t")) == look.key_line(KEY)
    assert look.key_line(KEY).startswith("ssh-ed25519 SHA256:")


@responses.activate
def test_the_nodes_that_are_there() -> None:
    url = f"{ENDPOINT}v2/projects/lab/locations/-/nodes"
    nodes = [
        {
            "name": "projects/lab/locations/us-central2-b/nodes/old",
            "acceleratorType": "v4-8",
            "state": "READY",
            "labels": {"tpu-fleet": "bob"},
        },
        {"name": "projects/lab/locations/us-central2-b/nodes/\x1b[2J", "state": "READY"},
    ]
    responses.get(url, json={"nodes": nodes})
    lines, owners = look.nodes_there("lab", ENDPOINT)
    assert owners == {"bob"}
    assert lines[0] == "old (v4-8, us-central2-b): READY, of the fleet of bob"
    assert "\x1b" not in lines[1]
    assert "of no fleet" in lines[1]


@responses.activate
def test_a_refusal_is_told() -> None:
    url = f"{ENDPOINT}v2/projects/lab/locations/-/nodes"
    responses.get(url, status=403, json={"error": {"code": 403, "message": "No \x1b[2J"}})
    (line,), _owners = look.nodes_there("lab", ENDPOINT)
    assert line.startswith("The project's nodes cannot be listed: ")
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("said", "repo", "folder"),
    [
        ("https://github.com/example/m.git", "https://github.com/example/m.git", ""),
        ("git@github.com:example/m.git", "git@github.com:example/m.git", ""),
        ("git@github.com/example/m.git", "git@github.com/example/m.git", ""),
        ("git clone git@lab:m.git", "git clone git@lab:m.git", ""),
        ("code", "", "../../code"),
        (".", "", "../.."),
        ("lab/code", "", "../code"),
        ("/opt/code", "", "/opt/code"),
    ],
)
def test_what_code_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, repo: str, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert look.code_named(said, tmp_path / "lab" / "inventory") == (repo, folder)
