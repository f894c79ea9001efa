"""The queue agent lands on a machine as it is here, with what it shares; its start comes last."""

from __future__ import annotations

from role_templates import ROLES, arguments, variables_of


def test_all_of_it_is_installed() -> None:
    role = "run_queue"
    found = arguments(role, "install.yml", "Install the programs", variables_of(role, {}))["files"]
    *files, folder = found
    assert folder == {"path": "/opt/tpu-fleet/queue_agent", "state": "directory", "purge": "*.py"}
    sources = ROLES / role / "files"
    assert {file["path"]: file["content"] for file in files} == {
        f"/opt/tpu-fleet/{path.relative_to(sources)}": path.read_text()
        for path in sources.rglob("*.py")
    }
    names = [file["path"].removeprefix("/opt/tpu-fleet/") for file in files]
    assert names[-1] == "tpu_fleet_queue.py"
    rooms = [name for name in names if name.count("/") >= 2]
    assert names[: len(rooms)] == rooms
