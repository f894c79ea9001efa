"""`tpu-fleet cloud`, with the local cloud installed and without."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from tpu_fleet.cli import main
from tpu_fleet.commands import cloud
from tpu_local_cloud.commands.cloud import cloud as installed
from tpu_local_cloud.commands.lifecycle import DEFAULT_PORT


@pytest.fixture
def _absent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No local cloud, as `pip install tpu-fleet` leaves it."""
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "tpu_local_cloud"]:
            patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [_Hidden, *sys.meta_path])
        importlib.reload(cloud)
        yield
    importlib.reload(cloud)


class _Hidden:
    """A finder that finds no local cloud, and leaves all else to the others."""

    @staticmethod
    def find_spec(name: str, *_more: object) -> None:
        if name.split(".")[0] == "tpu_local_cloud":
            raise ModuleNotFoundError(f"No module named {name!r}", name="tpu_local_cloud")


def test_the_commands_are_those_of_the_local_cloud() -> None:
    assert cloud.cloud is installed
    assert f"http://127.0.0.1:{DEFAULT_PORT}/" == cloud.ENDPOINT


@pytest.mark.usefixtures("_absent")
@pytest.mark.parametrize(
    "words", [[], ["up", "--hosts", "none"], ["--help"], ["fault", "list"], ["-x"]]
)
def test_without_it_each_command_names_the_extra(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["cloud", *words])
    assert result.exit_code == 1
    assert result.output == f"Error: {cloud.ABSENT}\n"


@pytest.mark.usefixtures("_absent")
def test_without_it_the_shell_names_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cloud.cloud_of_this_shell() == ("http://127.0.0.1:8470/", "local-project")
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "http://127.0.0.1:9000/")
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "other-project")
    assert cloud.cloud_of_this_shell() == ("http://127.0.0.1:9000/", "other-project")


class _Cloud(BaseHTTPRequestHandler):
    """Answers as the server of a cloud that this user may use, or as another program."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/_cloud/state" else 500)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "chosen", "is_default"),
    [(200, False, True), (200, True, False), (404, False, False)],
)
def test_a_new_cloud_gets_a_free_port(
    monkeypatch: pytest.MonkeyPatch, status: int, chosen: bool, is_default: bool
) -> None:
    """The fleet file named the default port, which was another program's or another cloud's."""
    monkeypatch.delenv(cloud.CHOSEN, raising=False)
    if chosen:
        monkeypatch.setenv(cloud.CHOSEN, "/nowhere")
    monkeypatch.setattr(_Cloud, "status", status)
    with HTTPServer(("127.0.0.1", 0), _Cloud) as server:
        default = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            endpoint = cloud.endpoint_of_new(default)
        finally:
            server.shutdown()
            thread.join()
    assert (endpoint == default) == is_default
    assert urlsplit(endpoint).port in range(server.server_port, 1 << 16)
    # Nothing has it any more.
    assert cloud.endpoint_of_new(default) == default


def test_the_cloud_of_this_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cloud.NAMED, raising=False)
    monkeypatch.setenv(cloud.CHOSEN, str(tmp_path))
    monkeypatch.setattr(cloud, "endpoint_of_new", lambda _default: "http://127.0.0.1:9/")
    assert cloud.cloud_of_this_shell() == ("http://127.0.0.1:9/", "local-project")
    said = {"host": "127.0.0.1", "port": 8571, "project": "mine"}
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert cloud.cloud_of_this_shell() == ("http://127.0.0.1:8571/", "mine")


def test_what_the_local_cloud_lacks_is_no_reason_to_install_it() -> None:
    with pytest.raises(ModuleNotFoundError, match="uvicorn"):
        cloud._only_if_absent(ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn"))
