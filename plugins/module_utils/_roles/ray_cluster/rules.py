# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the Ray cluster of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import UNREADABLE, Problem, did_you_mean, text_of, texts_of
from ..._schema.refs import (
    absolute,
    at_least,
    hides_a_name,
    known,
    known_user,
    names_of,
    own_venv,
    user_remedy,
)
from ..._schema.values import USER_NAME
from ..env_secrets.rules import check_uses
from ..service_rules import check_port
from ..whose import VENVS, check_code_of

_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")
_LONGEST_FOLDER = 38
_LEAST: Mapping[str, int | str] = {
    "fleet_ray_object_store_size": "75MiB",
    "fleet_ray_chips": 0,
    "fleet_ray_cpus": 0,
}
_RANGE = re.compile(r"(\d{4,5})-(\d{4,5})")


def check_ray_cluster(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared cluster."""
    head = text_of(data, "fleet_ray_head")
    if not head:
        return []
    problems = _check_head(data, head)
    user = text_of(data, "fleet_ray_user")
    if not user:
        remedy = "Set fleet_ray_user to the user that Ray and its tasks run as"
        problems.append(Problem("fleet_ray_user", None, "is missing", remedy))
    if user and not USER_NAME.fullmatch(user):
        message = "is not a user name that Linux takes"
        problems.append(Problem("fleet_ray_user", user, message, user_remedy(user)))
    elif user:
        problems += known_user(data, "", data, "fleet_ray_user")
    problems += _check_addresses(data, head)
    for index, name in texts_of(data, "fleet_ray_slices"):
        problems += known(data, f"fleet_ray_slices[{index}]", name, "slice", "fleet_slices")
    venv = text_of(data, "fleet_ray_venv")
    if venv and not venv.startswith("/"):
        problems += known(data, "fleet_ray_venv", venv, "venv", VENVS)
    problems += check_code_of(data, "fleet_ray_venv", user, venv, VENVS)
    uses = {"secrets": data.get("fleet_ray_secrets"), "slices": data.get("fleet_ray_slices")}
    problems += check_uses(data, "fleet_ray", uses, user)
    problems += absolute("", data, "fleet_ray_state_dir")
    folder = text_of(data, "fleet_ray_state_dir")
    if folder and len(folder) > _LONGEST_FOLDER:
        message = f"is longer than {_LONGEST_FOLDER} characters"
        remedy = "Use a shorter path, because Ray puts sockets into it"
        problems.append(Problem("fleet_ray_state_dir", folder, message, remedy))
    problems += own_venv(data, "ray_cluster")
    for key in ("fleet_ray_port", "fleet_ray_dashboard_port", "fleet_ray_node_ports"):
        problems += check_port(data, "", key)
    problems += _check_worker_ports(text_of(data, "fleet_ray_worker_ports"))
    problems += at_least(data, _LEAST)
    return [
        Problem(_variable(problem.field), problem.value, problem.message, problem.remedy)
        for problem in problems
    ]


def _variable(field: str) -> str:
    """Return the name of a variable of Ray, where other rules use a key of an entry."""
    return field.lstrip(".").replace("fleet_ray.", "fleet_ray_")


def _check_head(data: Mapping[str, Any], head: str) -> list[Problem]:
    """Check that the head is a worker of a slice in the cluster; only the API knows how many."""
    slices = [name for _index, name in texts_of(data, "fleet_ray_slices")]
    names = slices or names_of(data, "fleet_slices")
    if UNREADABLE in (data.get("fleet_ray_slices") or ()) or hides_a_name(data.get("fleet_slices")):
        return []
    if not names or any(re.fullmatch(rf"{re.escape(name)}(-w\d+)?", head) for name in names):
        return []
    remedy = did_you_mean(head, [*names, *(f"{name}-w0" for name in names)], "Name a worker")
    message = "is not a worker of a slice in the cluster"
    return [Problem("fleet_ray_head", head, message, remedy)]


def _check_addresses(data: Mapping[str, Any], head: str) -> list[Problem]:
    """Check the addresses that the playbooks set for this host and the head."""
    problems = []
    for key, what in (("head_address", f"of the head, {head}"), ("address", "of this host")):
        address = data.get(f"ray_cluster_{key}")
        if isinstance(address, str) and not _ADDRESS.fullmatch(address):
            message = f"is not the address {what}"
            remedy = "Name a head that is in the inventory, or set its internal address"
            problems.append(Problem(f"ray_cluster_{key}", address, message, remedy))
    return problems


def _check_worker_ports(value: str | None) -> list[Problem]:
    if not value:
        return []
    found = _RANGE.fullmatch(value)
    if found and 1024 <= int(found[1]) <= int(found[2]) - 10 <= 65525:
        return []
    remedy = "Write the first and the last port, like 20600-20999, at least ten ports"
    return [Problem("fleet_ray_worker_ports", value, "is not a range of ports", remedy)]
