"""`tpu-fleet status`: the fleet as one table, from the inventory and the status playbook."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

READ_RUNS = "Read the status files"
"""The task of playbooks/tasks/read_runs.yml whose output is taken."""


@dataclass(frozen=True)
class Row:
    """One worker, as a person wants to see it."""

    host: str
    slice: str
    type: str
    zone: str
    tier: str
    state: str
    external_ip: str
    internal_ip: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""


def rows_of(
    inventory: Mapping[str, Any],
    runs: Mapping[str, Sequence[dict[str, Any]]],
    unreachable: Mapping[str, str],
) -> list[Row]:
    """Join the inventory (`ansible-inventory --list`) with what the workers answered."""
    variables: Mapping[str, Mapping[str, Any]] = inventory["_meta"]["hostvars"]
    hosts = [
        host
        for group in ("tpu", "tpu_unavailable")
        for host in inventory.get(group, {}).get("hosts", [])
    ]
    rows = []
    for host in hosts:
        seen = {key: _plain(value) for key, value in variables.get(host, {}).items()}
        state = str(seen.get("tpu_vm_state") or "")
        rows.append(
            Row(
                host=host,
                slice=str(seen.get("tpu_vm_name") or ""),
                type=str(seen.get("tpu_vm_accelerator_type") or ""),
                zone=str(seen.get("tpu_vm_zone") or ""),
                tier=str(seen.get("tpu_vm_tier") or ""),
                state=state,
                external_ip=str(seen.get("tpu_vm_external_ip") or "-"),
                internal_ip=str(seen.get("tpu_vm_internal_ip") or "-"),
                runs=list(runs.get(host, [])),
                problem=str(seen.get("tpu_vm_unavailable_reason") or unreachable.get(host, "")),
            )
        )
    return rows


def _plain(value: Any) -> Any:
    """Take the marker off a string that Ansible did not trust as a template."""
    if isinstance(value, dict) and set(value) == {"__ansible_unsafe"}:
        return value["__ansible_unsafe"]
    return value


def runs_of(event: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]] | None:
    """Return host and runs when an ansible-runner event carries them."""
    data = event.get("event_data", {})
    if event.get("event") != "runner_on_ok" or data.get("task") != READ_RUNS:
        return None
    return data["host"], json.loads(data["res"]["stdout"])


def fleet_table(rows: Sequence[Row]) -> Table:
    """Draw the workers."""
    table = Table(title="Fleet", title_justify="left")
    for name in ("worker", "type", "zone", "tier", "state", "external IP", "internal IP", "runs"):
        table.add_column(name, overflow="fold")
    for row in rows:
        runs = "\n".join(
            f"{run['run']}: {run['state']}, attempt {run['attempt']}" for run in row.runs
        )
        table.add_row(
            row.host,
            row.type,
            row.zone,
            row.tier,
            row.state.lower(),
            row.external_ip,
            row.internal_ip,
            row.problem or runs or "-",
        )
    return table
