#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: first_boot
short_description: Wait for the first boot of a fresh machine
description:
  - Waits until the units that run once at boot have ended and no process holds a lock of the
    package manager.
options:
  timeout: {description: Seconds to wait at most., type: int, required: true}
  units:
    description: Units to wait for. A unit that the host does not have is no reason to wait.
    type: list
    elements: str
    required: true
  packages:
    description: 'Packages to look for, so that the caller knows whether any have to be installed.'
    type: list
    elements: str
    required: true
  min_free_mb:
    description: Megabytes that must be free where set-up writes. V(0) looks at nothing.
    type: int
    required: true
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes.info
"""

EXAMPLES = r"""
- name: Wait until the machine has set itself up
  tpu.fleet.first_boot:
    timeout: 900
    units: [cloud-final.service]
    packages: [tmux]
    min_free_mb: 2048
  register: first_boot
"""

RETURN = r"""#"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.doing import report
from ..module_utils._host.state import locker, wait_for_end
from ..module_utils._roles.host_base.first_boot import read_packages, too_full
from ..module_utils._roles.host_base.look import (
    describe,
    describe_host,
    free_space,
    units_at_work,
)

# Seconds between two looks, each of which starts systemctl. What is known to be at work is waited
# for without looking, but not for longer than this.
PAUSE = 0.5
LONG_PAUSE = 10.0
# Seconds in which systemd sees that a unit's process has ended.
SETTLES = 0.05
# Locked while packages are being installed.
LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)
# Paths to which the roles write.
WRITTEN = ("/", "/var/lib", "/var/cache/apt/archives", "/opt")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "timeout": {"type": "int", "required": True},
            "units": {"type": "list", "elements": "str", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "min_free_mb": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    properties = "--property=Id,ActiveState,MainPID,Job"
    show = ["systemctl", "show", properties, *module.params["units"]]

    def obstacles() -> list[tuple[str, int]]:
        found = units_at_work(module.run_command(show)[1])
        for path in LOCKS:
            pid = locker(path)
            if pid is not None:
                found.append((f"{path} is locked ({describe(pid)})", pid))
        return found

    started = time.monotonic()
    reported: list[str] = []
    while True:
        found = obstacles()
        waited = time.monotonic() - started
        if not found:
            break
        if reported != (reported := [text for text, _process in found]):
            report(f"waits: {'; '.join(reported)}")
        if waited >= module.params["timeout"]:
            told = [text for text, _process in found]
            module.fail_json(
                msg=f"Waited {waited:.0f} s for this machine to set itself up: {'; '.join(told)}. "
                "Look at it on the host, or allow more time (fleet_first_boot_timeout).",
                waited=waited,
                obstacles=told,
            )
        left = max(0.1, module.params["timeout"] - waited)
        processes = [process for _text, process in found if process]
        ended = bool(processes) and wait_for_end(processes[0], min(LONG_PAUSE, left))
        time.sleep(SETTLES if ended else min(PAUSE, left))

    code, out, _err = module.run_command(["systemd-detect-virt", "--container"])
    container = out.strip() if code == 0 else ""
    full = too_full(free_space(WRITTEN), module.params["min_free_mb"])
    if full:
        module.fail_json(msg=full, waited=round(waited, 1))
    layout = "--showformat=${Package} ${Version} ${db:Status-Abbrev}\\n"
    packages = read_packages(module.run_command(["dpkg-query", "--show", layout])[1])
    host = describe_host(container, packages, module.params["packages"])
    module.exit_json(changed=False, waited=round(waited, 1), host=host)


if __name__ == "__main__":
    main()
