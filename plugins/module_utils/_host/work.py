# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of roles share. Private to tpu.fleet."""

from __future__ import annotations

from collections.abc import Callable

# The run_command of an Ansible module: exit code, output, errors.
Run = Callable[..., tuple[int, str, str]]


class Failed(Exception):
    """A step has failed; the text has the reason."""


def difference(path: str, before: str, after: str) -> dict[str, str]:
    """Return one entry of a module's diff."""
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def units_shown(text: str) -> dict[str, dict[str, str]]:
    """Return the properties of units by name, from the output of systemctl show."""
    units = (
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    )
    return {unit["Id"]: unit for unit in units if "Id" in unit}


def new_account(name: str) -> list[str]:
    """Return the command that adds an account of the system, as which no person logs in."""
    kind = ("--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
    return ["/usr/sbin/useradd", *kind, "--shell", "/usr/sbin/nologin", name]
