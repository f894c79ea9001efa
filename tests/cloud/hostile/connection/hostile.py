"""A connection on which every program says what a file has for it; nothing is run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: hostile
short_description: Workers whose answers are files
description: Workers whose answers are files.
author: The tpu.fleet authors (@tpu-fleet)
extends_documentation_fragment: [connection_pipelining]
options: {}
"""

# How Ansible names the module in what it sends, and what run_info is asked about.
MODULE = re.compile(rb"""module_fqn['"]?\s*[=:]\s*['"][a-z_.]*\.([a-z_]+)['"]""")
ABOUT = re.compile(rb"""\\*"about\\*":\s*\\*"([a-z_]+)""")


class Connection(ConnectionBase):
    """The connection."""

    transport = "hostile"
    has_pipelining = True

    def _connect(self) -> Connection:
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        host = str(self._play_context.remote_addr)
        if in_data is None:
            return 0, b"/nowhere/of/this/worker\n", b""
        module = MODULE.search(in_data)
        name = module[1].decode() if module else "unknown"
        about = ABOUT.search(in_data) if name == "run_info" else None
        name = about[1].decode() if about else name
        # Not read while importing: a process may have done that for other tests, too.
        answers = Path(os.environ["HOSTILE_ANSWERS"])
        with (answers / "asked").open("a") as asked:
            asked.write(f"{host} {name}\n")
        for path in (answers / f"{host}.{name}", answers / host):
            if path.exists():
                return 0, path.read_bytes(), b""
        return 1, b"", b"no answer"

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        super().fetch_file(in_path, out_path)
        # Whose sum is told rightly is told by the module stat.
        Path(out_path).write_bytes(b'"content"')

    def close(self) -> None:
        pass
