# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load once what every task would load again. Private to tpu.fleet.

Ansible runs each task in a fork of its process, and loads filters, tests and connections when a
task first needs them: in the fork, so that the next task loads them again.
"""

from __future__ import annotations

import contextlib
import gc

from ansible.plugins.loader import connection_loader, filter_loader, shell_loader, test_loader


def load(*filters: str) -> None:
    """Load these filters, what Ansible loads together with them, and what tasks here run by.

    With one plugin of a collection, Ansible loads its others of the kind as well.
    """
    # What imports an action outside Ansible's programs has no collections, and starts no tasks.
    with contextlib.suppress(KeyError):
        for name in filters:
            filter_loader.get(name)
    test_loader.get("ansible.builtin.defined")
    connection_loader.get("ansible.builtin.local", class_only=True)
    shell_loader.get("ansible.builtin.sh", class_only=True)
    freeze()


def freeze() -> None:
    """Keep the collector of each fork from what is here, of which a fork copies what it touches."""
    gc.freeze()
