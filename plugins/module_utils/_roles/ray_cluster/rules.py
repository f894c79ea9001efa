# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the Ray cluster of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import UNREADABLE, Problem, did_you_mean, text_of, texts_of
from ..._schema.refs import absolute, hides_a_name, known, known_user, names_of
from ..env_secrets.rules import check_uses
from ..service_rules import check_memory, check_port

_RANGE = re.compile(r"(\d{4,5})-(\d{4,5})")


def check_ray_cluster(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the cluster."""
    head = text_of(data, "ray_cluster_head")
    if not head:
        return []
    problems = _check_head(data, head)
    user = text_of(data, "ray_cluster_user")
    if not user:
        remedy = "Set ray_cluster_user to the user that Ray and its tasks run as"
        problems.append(Problem("ray_cluster_user", None, "is missing", remedy))
    problems += known_user(data, "", data, "ray_cluster_user") if user else []
    for index, name in texts_of(data, "ray_cluster_slices"):
        problems += known(data, f"ray_cluster_slices[{index}]", name, "slice", "fleet_slices")
    venv = text_of(data, "ray_cluster_venv")
    if venv and not venv.startswith("/"):
        problems += known(data, "ray_cluster_venv", venv, "venv", "python_env_venvs")
    uses = {"secrets": data.get("ray_cluster_secrets"), "slices": data.get("ray_cluster_slices")}
    problems += check_uses(data, "ray_cluster", uses, user)
    problems += absolute("", data, "ray_cluster_state_dir")
    for key in ("ray_cluster_port", "ray_cluster_dashboard_port", "ray_cluster_node_ports"):
        problems += check_port(data, "", key)
    problems += check_memory(data, "", "ray_cluster_memory_max")
    problems += _check_worker_ports(text_of(data, "ray_cluster_worker_ports"))
    store = data.get("ray_cluster_object_store_mb")
    if isinstance(store, int) and 0 < store < 75:
        remedy = "Use 75 or more, or 0 for Ray's own choice"
        problems.append(Problem("ray_cluster_object_store_mb", store, "is too little", remedy))
    return [
        Problem(_variable(problem.field), problem.value, problem.message, problem.remedy)
        for problem in problems
    ]


def _variable(field: str) -> str:
    """Name a variable of the role, where others name the key of an entry."""
    return field.lstrip(".").replace("ray_cluster.", "ray_cluster_")


def _check_head(data: Mapping[str, Any], head: str) -> list[Problem]:
    """Check that the head is a worker of a slice in the cluster; only the API says how many."""
    slices = [name for _index, name in texts_of(data, "ray_cluster_slices")]
    names = slices or names_of(data, "fleet_slices")
    if UNREADABLE in (data.get("ray_cluster_slices") or ()) or hides_a_name(
        data.get("fleet_slices")
    ):
        return []
    if not names or any(re.fullmatch(rf"{re.escape(name)}(-w\d+)?", head) for name in names):
        return []
    remedy = did_you_mean(head, [*names, *(f"{name}-w0" for name in names)], "Name a worker")
    message = "is no worker of a slice in the cluster"
    return [Problem("ray_cluster_head", head, message, remedy)]


def _check_worker_ports(value: str | None) -> list[Problem]:
    if not value:
        return []
    found = _RANGE.fullmatch(value)
    if found and 1024 <= int(found[1]) <= int(found[2]) - 10 <= 65525:
        return []
    remedy = "Write the first and the last port, as 20600-20999, with ten at least"
    return [Problem("ray_cluster_worker_ports", value, "is no range of ports", remedy)]
