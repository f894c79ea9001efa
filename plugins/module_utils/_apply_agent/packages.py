# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start to install packages while ansible-core is still being fetched.

This only saves time: the roles wait for the unit, then install what is missing, or report why it
cannot be installed. Translated descriptions of packages, a quarter of the lists, are left out; the
machine's next update gets them.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Sequence

# The role host_base waits for it.
UNIT = "tpu-fleet-packages.service"
_SCRIPT = """
dpkg-query --show -- "$@" > /dev/null 2>&1 && exit 0
apt="apt-get --quiet --yes --option DPkg::Lock::Timeout=600"
$apt --option Acquire::Languages=none update && exec $apt --no-install-recommends \
    --option Dpkg::Options::=--force-confdef \
    --option Dpkg::Options::=--force-confold install -- "$@"
"""


def begin(names: Sequence[str]) -> None:
    """Start the unit, which continues after this process has ended."""
    if not names:
        return
    unit = ["systemd-run", "--quiet", "--no-block", "--collect", f"--unit={UNIT}"]
    unit += ["--property=Type=oneshot", "--setenv=DEBIAN_FRONTEND=noninteractive"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        # pylint: disable-next=ansible-bad-function
        subprocess.run(
            [*unit, "/bin/sh", "-c", _SCRIPT, "packages", *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
