# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a file of the controller in Ansible itself."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._host.state import read_text, write_atomically
from ..module_utils._host.work import difference
from ..modules.controller_file import DOCUMENTATION
from ..plugin_utils._fleet import state_folder
from ..plugin_utils._fleet.declared import Declared


class ActionModule(Declared):
    """The file, if it is not yet what it should be."""

    _requires_connection = False
    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Compare and write."""
        arguments = self.options(DOCUMENTATION)
        path, content = arguments["dest"], arguments["content"]
        foreign = state_folder.problems_of(
            self.vars, self._templar.template, note=not self._task.check_mode
        )
        if foreign:
            raise AnsibleActionFail(" ".join(map(str, foreign)))
        mode = int(arguments["mode"], 8)
        try:
            before = read_text(path)
            same = before == content and stat.S_IMODE(Path(path).stat().st_mode) == mode
            if not same and not self._task.check_mode:
                folder = Path(path).parent
                if not folder.is_dir():
                    folder.mkdir(mode=mode | (mode & 0o444) >> 2, parents=True)
                write_atomically(path, content, mode=mode, uid=os.getuid(), gid=os.getgid())
        except OSError as error:
            raise AnsibleActionFail(f"{path} cannot be written: {error.strerror}.") from error
        told = {"changed": not same, "dest": path}
        return (
            told if before == content else {**told, "diff": difference(path, before or "", content)}
        )
