"""`tpu-fleet plan`, `slice` and `grant expire`, against the API alone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import requests
from emulator import ROOT, Emulator
from json_forms import conforms

BIN = ROOT / ".venv/bin"
Play = Callable[..., str]
GRANT = {"zone": Emulator.zone, "generation": "v4", "tier": "on_demand", "chips": 8}
RUN = {"name": "digits", "slices": ["solo", "pair"], "user": "alice", "command": "true"}
FLEET: dict[str, Any] = {
    "fleet_allocations": [{**GRANT, "ends": "2037-01-01"}],
    "fleet_slices": [
        {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone},
        {"name": "pair", "accelerator_type": "v4-8", "zone": Emulator.zone},
    ],
    "fleet_users": [{"name": "alice", "uid": 2001}],
    "fleet_runs": [RUN],
}
# On a busy computer a command also says that it goes on.
SO_FAR = re.compile(r"^tpu[.]fleet[.]site: \d+ s so far.*\n", re.MULTILINE)


def fleet(ground: Any, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "tpu-fleet", *words],
        cwd=ROOT,
        env={**ground.env, "COLUMNS": "80"},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


OURS = {"labels": {"tpu-fleet": "managed"}}


def node_names(cloud: Emulator) -> set[str]:
    place = f"v2/projects/{cloud.project}/locations/{cloud.zone}/nodes"
    found = requests.get(cloud.url + place, timeout=20).json().get("nodes", [])
    return {one["name"].rpartition("/")[2] for one in found}


def test_a_plan_names_slices_machines_runs_and_costs(cloud: Emulator, ground: Any) -> None:
    ground.declare({**FLEET, "fleet_budget": {"per_day": 50}})
    done = fleet(ground, "plan")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.splitlines()[:7] == [
        "slices      + create solo (v4-8, on demand) in us-central2-b; $12.88/h, the",
        "              grant pays it until 2037-01-01",
        "            + create pair (v4-8, on demand) in us-central2-b; $12.88/h, the",
        "              grant pays it until 2037-01-01",
        "set up      pair,solo: new, all roles",
        "runs        start digits (pair), digits (solo): its slice is new",
        "cost then   $25.76 an hour at list price, $0.00 of it billed",
    ]
    left = "budget $0.00 of $50.00 spent today, $50.00 left: nothing was counted yet"
    assert left in " ".join(done.stdout.split())
    assert node_names(cloud) == set()
    # Of one slice; what the grant does not hold of another is no matter then.
    told = conforms(["plan"], fleet(ground, "plan", "--slice", "solo", "--json").stdout)
    assert [one["slice"] for one in told["slices"]] == ["solo"]
    assert told["machines"][0] | {"host": "solo", "new": True} == told["machines"][0]
    assert [(one["run"], one["slice"]) for one in told["runs"]] == [("digits", "solo")]
    assert told["budget"]["periods"][0]["left"] == 50.0
    assert (told["usd_per_hour"], told["usd_per_hour_billed"], told["exit_code"]) == (12.88, 0, 2)


def test_a_plan_of_what_is_there_and_of_what_no_grant_holds(cloud: Emulator, ground: Any) -> None:
    cloud.populate(1, prefix="solo", acceleratorType="v4-8", **OURS)
    cloud.populate(1, prefix="left", acceleratorType="v4-8", **OURS)
    slices = [{"name": "solo-0", "accelerator_type": "v4-8", "zone": Emulator.zone}]
    ground.declare({**FLEET, "fleet_slices": slices, "fleet_runs": []})
    done = fleet(ground, "plan")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("slices      ~ change solo-0 labels, metadata in us-central2-b:")
    assert any(line.startswith("unknown     left-0,solo-0: ") for line in lines)
    assert "kept        not declared, and left as it is: node left-0 (READY) in" in done.stdout
    assert lines[-1] == "cost then   $25.76 an hour at list price, $0.00 of it billed"
    assert max(map(len, lines)) <= 80
    assert (done.returncode, SO_FAR.sub("", done.stderr)) == (2, "")

    # What the grant does not hold is an error, and the rest of the plan is shown.
    two = [*slices, {**slices[0], "name": "too-much"}]
    ground.declare({**FLEET, "fleet_slices": two, "fleet_runs": []})
    done = fleet(ground, "plan")
    assert done.returncode == 1
    assert "too-much: refused: the grant holds 8 v4 chips on demand in us-central2-b" in done.stderr
    assert "~ change solo-0" in done.stdout
    ground.declare({"fleet_slices": [{"name": "x", "accelerator_typo": "v4-8"}]})
    done = fleet(ground, "plan")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The fleet file has " in done.stderr
    assert "accelerator_typo" in done.stderr


def test_slices_are_named_and_asked_for_before_anything_starts(
    cloud: Emulator, ground: Any
) -> None:
    cloud.populate(2, prefix="ours", acceleratorType="v4-8", **OURS)
    slices = [
        {"name": f"ours-{at}", "accelerator_type": "v4-8", "zone": Emulator.zone} for at in (0, 1)
    ]
    ground.declare({**FLEET, "fleet_slices": slices, "fleet_runs": []})
    done = fleet(ground, "slice", "delete", "our-0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "Error: There is no declared slice our-0. Did you mean ours-0? There is ours-0, ours-1"
    )
    done = fleet(ground, "slice", "delete", "ours-0", typed="yes\n")
    assert done.returncode == 1
    assert "ours-0: v4-8 in us-central2-b, READY, 1 worker, $12.88 an hour" in done.stderr
    assert '"yes" is not "ours-0". Nothing was deleted.' in done.stderr
    assert node_names(cloud) == {"ours-0", "ours-1"}

    done = fleet(ground, "slice", "delete", "ours-0", typed="ours-0\n")
    assert done.returncode == 0, done.stderr
    assert "ansible-playbook tpu.fleet.teardown -e teardown=ours-0\n" in done.stderr
    assert done.stdout.startswith("Deleted: ours-0.\nThe next `tpu-fleet apply` creates")
    assert node_names(cloud) == {"ours-1"}

    done = fleet(ground, "slice", "create", "ours-0", "--check")
    assert done.returncode == 0, done.stderr
    assert "ours-0" not in node_names(cloud)
    assert "+ create ours-0 (v4-8, on demand) in us-central2-b" in done.stdout
    assert "ours-1" not in done.stdout


# In CI tests/unit/plugins/module_utils/_fleet/test_plan.py has which slices are deleted, and
# tests/unit/src/test_cli.py the command that was renamed.
@pytest.mark.night
def test_a_grant_expires_for_what_allows_it(cloud: Emulator, ground: Any) -> None:
    cloud.populate(2, prefix="ours", acceleratorType="v4-8", **OURS)
    slices = [
        {"name": f"ours-{at}", "accelerator_type": "v4-8", "zone": Emulator.zone} for at in (0, 1)
    ]
    slices[0]["on_grant_end"] = "delete"
    over = {**FLEET, "fleet_slices": slices, "fleet_runs": []}
    ground.declare({**over, "fleet_allocations": [{**GRANT, "ends": "2026-01-01"}]})
    done = fleet(ground, "grant", "expire", "--check")
    assert (done.returncode, done.stdout) == (0, "To be deleted: ours-0.\n"), done.stderr
    done = fleet(ground, "grant", "expire")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("- delete node ours-0 ")
    assert node_names(cloud) == {"ours-1"}
    done = fleet(ground, "grant", "expire")
    assert done.stdout == "No slice is deleted: no grant of one has ended.\n"
    done = fleet(ground, "allocation", "show")
    assert done.returncode == 2
    assert done.stderr.endswith("No such command 'allocation'. It is 'grant' now.\n")


# In CI tests/cloud/modules/test_bucket_location.py has what is refused, and test_mistakes.py that
# playbooks begin with their checks.
@pytest.mark.night
def test_a_bucket_in_another_region_is_refused_before_anything_changes(
    cloud: Emulator, ground: Any
) -> None:
    for name, place in (("far", "europe-west4"), ("lab-us-central2", "us-central2")):
        body = {"name": name, "location": place}
        requests.post(f"{cloud.url}storage/v1/b", json=body, timeout=20).raise_for_status()
    ground.declare({**FLEET, "fleet_runs": [{**RUN, "checkpoint_dir": "gs://far/digits"}]})
    for code, *words in ((1, "plan"), (2, "apply", "--only", "slices")):
        done = fleet(ground, *map(str, words))
        assert done.returncode == code, done.stdout + done.stderr
        said = " ".join((done.stdout + done.stderr).split())
        assert "fleet_runs[0].checkpoint_dir = 'gs://far/digits': bucket far is in" in said
        assert "$50 a terabyte" in said
        assert "cross_region: allow in fleet_runs[0]" in said
    assert node_names(cloud) == set()
    near = {**RUN, "checkpoint_dir": "gs://lab-{region}/digits"}
    far = {**near, "command": "train gs://far/data", "cross_region": "allow", "name": "words"}
    ground.declare({**FLEET, "fleet_runs": [near, far]})
    done = fleet(ground, "plan")
    assert done.returncode == 2, done.stdout + done.stderr
