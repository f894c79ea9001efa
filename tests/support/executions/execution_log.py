"""A callback that notes when which task begins."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ansible.inventory.host import Host
from ansible.playbook.task import Task
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: execution_log
type: aggregate
short_description: Note when which task begins
description: [Note when which task begins.]
"""


class CallbackModule(CallbackBase):
    """Writes a line for each task of each host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "execution_log"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Note the beginning of a task on a host."""
        line = {
            "time": time.time(),
            "host": host.get_name(),
            "role": task._role.get_name() if task._role else "",
            "task": task.get_name(),
        }
        with Path(os.environ["TPU_FLEET_EXECUTIONS"] + ".tasks").open("a") as file:
            file.write(json.dumps(line) + "\n")
