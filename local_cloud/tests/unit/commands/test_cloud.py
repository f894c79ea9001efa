"""The command line of the local cloud, up to where a cloud would begin."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tpu_local_cloud.commands import cloud as command
from tpu_local_cloud.commands import lifecycle
from tpu_local_cloud.commands.cloud import cloud, table
from tpu_local_cloud.commands.lifecycle import Cloud
from tpu_local_cloud.machines.host import HostFacts

FACTS = HostFacts("Linux", 0, "debian", (), "bookworm", "cgroup2", True, 0, 1024, 1024)


@pytest.fixture(autouse=True)
def _no_cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TPU_FLEET_CLOUD_DIR", str(tmp_path / "cloud"))
    # A port that nobody serves.
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "http://127.0.0.1:1/")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cloud, arguments)


def test_version() -> None:
    assert _run("--version").output.startswith("tpu-local-cloud, version ")


def test_machines_for_somebody_else_than_root(monkeypatch: pytest.MonkeyPatch) -> None:
    user = HostFacts("Linux", 1000, "debian", (), "bookworm", "cgroup2", True, 0, 1024, 1024)
    monkeypatch.setattr(command, "read_facts", lambda: user)
    result = _run("up")
    assert result.exit_code == 2
    assert "need root" in result.output
    assert "--hosts none" in result.output


@pytest.mark.parametrize("hosts", ["container", "none"])
def test_another_system_than_linux(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    mac = HostFacts("Darwin", 501, "", (), "", "none", False, 0, 1024, 1024)
    monkeypatch.setattr(command, "read_facts", lambda: mac)
    result = _run("up", "--hosts", hosts)
    assert result.exit_code == 2
    assert "The local cloud needs Linux" in result.output
    assert "runs Darwin" in result.output


def test_missing_programs_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "read_facts", lambda: FACTS)
    monkeypatch.setattr(command, "missing_programs", lambda facts: ["nft", "podman"])
    result = _run("up")
    assert result.exit_code == 2
    assert "apt-get install --yes --no-install-recommends nftables podman" in result.output
    assert "--install" in result.output
    assert not list(tmp_path.iterdir())


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cloud").mkdir()
    (tmp_path / "cloud" / "precious").touch()
    result = _run("up", "--hosts=none")
    assert result.exit_code == 1
    assert "not a local cloud" in result.output
    assert "no local cloud" in _run("down").output
    assert (tmp_path / "cloud" / "precious").exists()


@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, existing: bool
) -> None:
    folder = tmp_path / "cloud"
    if existing:
        folder.mkdir()
        config = {"hosts": "none", "port": 8470, "grpc_port": None, "project": "local-project"}
        (folder / "config.json").write_text(json.dumps(config))
    usage = shutil.disk_usage(tmp_path)._replace(free=5 << 20)
    monkeypatch.setattr(lifecycle.shutil, "disk_usage", lambda _path: usage)
    monkeypatch.setattr(lifecycle, "_require_port", lambda *_words: None)
    result = _run("up", "--hosts=none")
    assert result.exit_code == 1
    assert f"{folder if existing else tmp_path} has 5 MB of free disk space" in result.output
    assert "TPU_FLEET_CLOUD_DIR" in result.output
    assert "Traceback" not in result.output
    assert folder.exists() is existing


@pytest.mark.parametrize("arguments", [["status"], ["preempt", "n"], ["clock"], ["fault", "list"]])
def test_without_a_cloud_the_way_to_one_is_shown(arguments: list[str]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 1
    assert "start it with `cloud up`" in result.output


def test_a_text_names_the_program_that_was_called() -> None:
    fleet = click.Group(commands={"cloud": cloud})
    alone = CliRunner().invoke(cloud, ["fault", "list"], prog_name="tpu-local-cloud")
    within = CliRunner().invoke(fleet, ["cloud", "fault", "list"], prog_name="tpu-fleet")
    assert "start it with `tpu-local-cloud up`" in alone.output
    assert "start it with `tpu-fleet cloud up`" in within.output


def test_a_pair_without_a_value_is_refused() -> None:
    result = _run("fault", "add", "stock_out", "--match=zone")
    assert result.exit_code == 2
    assert "'zone' is not of the form KEY=VALUE" in result.output


def test_env_can_be_evaluated_whatever_the_paths_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    config = {"host": "127.0.0.1", "port": 9, "project": "p", "hosts": "none"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("TPU_FLEET_CLOUD_DIR", str(folder))
    words = [shlex.split(line) for line in _run("env").output.splitlines()]
    assert all(len(line) == 2 and line[0] == "export" for line in words)
    values = dict(line[1].split("=", 1) for line in words)
    assert values["TPU_FLEET_CLOUD_DIR"] == str(folder)
    assert values["CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"] == "http://127.0.0.1:9/"
    assert values["CLOUDSDK_CORE_PROJECT"] == values["GOOGLE_CLOUD_PROJECT"] == "p"


def test_env_leads_gcloud_nowhere_else() -> None:
    """Each service that gcloud could ask has an endpoint at the local cloud."""
    lines = dict(line[7:].split("=", 1) for line in _run("env").output.splitlines())
    prefix = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
    endpoints = {k.removeprefix(prefix): v for k, v in lines.items() if k.startswith(prefix)}
    assert {"LOGGING", "CONTAINER", "SECRETMANAGER", "IAMCREDENTIALS", "TPU"} <= set(endpoints)
    assert len(endpoints) == 180
    assert all(value.startswith("http://127.0.0.1:1/") for value in endpoints.values())
    assert endpoints["LOGGING"] == "http://127.0.0.1:1/_absent/logging/"


def test_table() -> None:
    worker = {"worker": 0, "machine": "t1v-n-1-w-0", "internal_ip": "10.0.0.2", "external_ip": None}
    node = {"node": "a", "zone": "z", "accelerator_type": "v4-8", "state": "READY"}
    lines = table({"nodes": [{**node, "workers": [worker]}]})
    assert lines[1].split() == ["a", "z", "v4-8", "READY", "0", "t1v-n-1-w-0", "10.0.0.2", "-"]
    assert table({"nodes": []}) == ["No nodes yet."]


def test_only_a_process_that_serves_this_cloud_is_its_server(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    assert cloud.server_pid() is None
    (tmp_path / "server.pid").write_text("1\n")
    assert cloud.server_pid() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process of another user")
@pytest.mark.parametrize("user", [os.geteuid(), 4321])
def test_a_process_of_another_user_is_no_server(tmp_path: Path, user: int) -> None:
    cloud = Cloud(tmp_path)
    cloud.config_file.write_text("{}")
    words = ["/bin/sh", "-c", "echo; while :; do sleep 1; done"]
    process = subprocess.Popen(
        [*words, "--config", str(cloud.config_file)],
        stdout=subprocess.PIPE,
        user=user,
        extra_groups=[],
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert cloud.server_pid() == (None if user == 4321 else process.pid)
    finally:
        process.kill()
        process.communicate()


def test_down_shows_each_step_before_it_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It takes up to a minute: podman waits for machines, and an image is a gigabyte of files."""
    done: list[str] = []

    class Machines:
        def __init__(self, state_dir: Path) -> None:
            assert state_dir == tmp_path / "cloud"

        def destroy(self, progress: Callable[[str], None]) -> None:
            assert shown == ["Stopping the API server"]
            progress("Ending the machines")

    def release(_user: str, keep: bool) -> None:
        done.append(f"{shown[-1]}: {keep}")

    shown: list[str] = []
    monkeypatch.setattr(lifecycle, "ContainerMachines", Machines)
    monkeypatch.setattr(lifecycle.image, "release", release)
    monkeypatch.setattr(lifecycle.os, "geteuid", lambda: 0)
    for keep in (False, True):
        shown.clear()
        (tmp_path / "cloud").mkdir()
        (tmp_path / "cloud" / "config.json").write_text(json.dumps({"hosts": "container"}))
        assert lifecycle.down(Cloud(tmp_path / "cloud"), keep, shown.append)
    assert done == ["Removing the base image if unused: False", "Keeping the base image: True"]
