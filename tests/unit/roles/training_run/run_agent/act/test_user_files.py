"""Files and sockets of the run's user."""

from __future__ import annotations

import socket
from pathlib import Path

from run_agent.act import user_files


def test_a_server_is_seen_by_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not user_files.listens(str(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not user_files.listens(str(path))
        server.listen()
        assert user_files.listens(str(path))
    assert not user_files.listens(str(path))  # its file stays
    path.unlink()
    path.write_text("no socket")
    assert not user_files.listens(str(path))


def test_what_is_not_certain_is_not_denied(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(tmp_path / "s"))
        assert user_files.listens(str(tmp_path / "s"))
    assert user_files.listens(str(tmp_path / ("x" * 200)))
