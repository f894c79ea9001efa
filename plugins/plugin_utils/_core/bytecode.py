# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import the collection's own code from Python's bytecode cache. Private to tpu.fleet.

Ansible's loader of collections compiles every file from its source, each time that Ansible starts:
two hundred files of this collection take a third of a second. The files here are packages of
Python without redirects, so Python's own loader can import them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader

_PLUGINS = __name__.rpartition(".plugin_utils.")[0]
_ANSIBLES = "_AnsibleCollectionFinder"
_OURS = (f"{_PLUGINS}.module_utils.", f"{_PLUGINS}.plugin_utils.")


class _Finder:
    """Finds what is below `module_utils` and `plugin_utils`, before Ansible's finder does."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: object = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(_OURS):
            return None
        for folder in path:
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, [".py"]))
            if found := self._folders[folder].find_spec(fullname):
                return found
        return None


def _before_ansible() -> int:
    """Return the place of Ansible's finder; what is before it is another's, such as a test's."""
    names = [type(finder).__name__ for finder in sys.meta_path]
    return names.index(_ANSIBLES) if _ANSIBLES in names else len(names)


if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
    sys.meta_path.insert(_before_ansible(), _Finder())
