# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the metrics of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, text_of, texts_of
from ..._schema.refs import at_least


def check_tpu_metrics(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared metrics."""
    problems = []
    address = text_of(data, "fleet_metrics_address")
    if address in ("0.0.0.0", "::", "[::]"):  # noqa: S104 - refused here
        remedy = "Remove it: the default is the internal address of each machine"
        message = "means all addresses, including the external one"
        problems.append(Problem("fleet_metrics_address", address, message, remedy))
    elif address and not re.fullmatch(r"[0-9A-Fa-f.:\[\]]+", address):
        remedy = "Use one address of the machine, such as 10.0.0.2"
        problems.append(Problem("fleet_metrics_address", address, "is not an address", remedy))
    version = text_of(data, "fleet_metrics_tpu_info_version")
    if version and not re.fullmatch(r"[0-9][0-9A-Za-z.]*", version):
        remedy = "Write it like 0.5.1"
        problems.append(
            Problem("fleet_metrics_tpu_info_version", version, "is not a version", remedy)
        )
    port = data.get("fleet_metrics_port")
    if isinstance(port, int) and not 1 <= port <= 65535:
        problems.append(Problem("fleet_metrics_port", port, "is not a port", "Use 1 to 65535"))
    problems += at_least(data, {"fleet_metrics_interval": "1s"})
    for index, disk in texts_of(data, "fleet_metrics_disks"):
        if not disk.startswith("/"):
            field = f"fleet_metrics_disks[{index}]"
            problems.append(Problem(field, disk, "is not a whole path", "Begin it with /"))
    for index, word in texts_of(data, "fleet_metrics_exporter_args"):
        if not re.fullmatch(r"--[a-z]\S*", word):
            remedy = "Write one word that begins with --, such as --no-collector.wifi"
            field = f"fleet_metrics_exporter_args[{index}]"
            problems.append(Problem(field, word, "is not one argument", remedy))
    return problems
