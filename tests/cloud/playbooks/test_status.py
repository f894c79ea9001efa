"""`tpu-fleet status` and `grant show`, where no machine is needed to see what they say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emulator import ROOT, Emulator
from json_forms import conforms

Play = Callable[..., str]
BIN = ROOT / ".venv/bin"
GRANT = {"zone": Emulator.zone, "generation": "v4", "tier": "on_demand", "chips": 8}


def test_status_shows_the_grant_and_the_costs(cloud: Emulator, play: Play) -> None:
    cloud.populate(2, prefix="theirs", acceleratorType="v4-8")
    cloud.populate(1, prefix="theirs-too", acceleratorType="v4-16")
    fleet = {
        "fleet_allocations": [{**GRANT, "ends": "2037-01-01"}],
        "fleet_allocation_warn_before": "100000d",
        "fleet_prices": [
            {
                "generation": "v4",
                "region": "us-central2",
                "tier": "on_demand",
                "usd_per_chip_hour": "{{ 1 + 1 }}",
            }
        ],
    }
    seen = conforms(["status"], play("tpu-fleet", "status", "--json", fleet=fleet))
    assert seen["workers"] == []
    assert seen["grant"]["allocations"][0]["used"] == 8
    # The variables of the fleet file are templates like all others.
    assert {node["name"]: node["usd_per_hour"] for node in seen["nodes"]} == {
        "theirs-0": 8,
        "theirs-1": 8,
        "theirs-too-0": 16,
    }
    assert sum(node["outside"] for node in seen["nodes"]) == 8
    assert any("until 2037-01-01" in line for line in seen["warnings"])

    out = play("tpu-fleet", "status", fleet=fleet)
    for words in ("Grant", "8 of 8 chips", "theirs-0 (not ours)", "Warning: ", "$16.00", "free"):
        assert words in out

    out = play("tpu-fleet", "grant", "show", fleet=fleet)
    assert "8 of 8 chips" in out
    assert "Costs" not in out


def test_status_shows_what_is_there_when_the_grant_is_wrong(cloud: Emulator, play: Play) -> None:
    fleet = {"fleet_allocations": [{**GRANT, "count": 2}]}
    out = play("tpu-fleet", "status", fleet=fleet)
    assert "Grant and costs are unknown: " in out
    assert "has both chips and count" in " ".join(out.split())
    out = play("tpu-fleet", "grant", "show", fleet=fleet, ok=False)
    assert "has both chips and count" in out


def test_a_wrong_value_is_named_as_by_the_module(cloud: Emulator, play: Play) -> None:
    fleet = {"fleet_allocations": "unrestricted", "fleet_allocation_warn_before": "soon"}
    out = play("tpu-fleet", "grant", "show", fleet=fleet, ok=False)
    assert "warn_before" in out
    assert "Traceback" not in out


def test_a_fleet_that_cannot_be_read_is_one_line(ground: Any) -> None:
    ground.declare({})
    (ground.inventory / "fleet.tpu.yml").write_text("plugin: tpu.fleet.tpu\nprojects: []\n")
    unwanted = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
    env = {name: value for name, value in ground.env.items() if name not in unwanted}
    done = run("status", env)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: No project is given. Set projects in this file")
    assert done.stderr.count("\n") == 1


def test_an_encrypted_file_is_read_with_the_password_that_ansible_is_given(
    ground: Any, tmp_path: Path
) -> None:
    ground.declare({})
    password = tmp_path / "password"
    password.write_text("secret\n")
    file = ground.inventory / "group_vars" / "all" / "zz.yml"
    file.write_text("fleet_allocations: unrestricted\n")
    env = {**ground.env, "ANSIBLE_VAULT_PASSWORD_FILE": str(password)}
    subprocess.run([BIN / "ansible-vault", "encrypt", str(file)], env=env, check=True)
    assert "unrestricted" in run("grant", env, "show").stdout
    done = run("status", ground.env)
    assert done.returncode == 1
    assert "A vault password must be specified to decrypt data" in done.stderr


def run(command: str, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [BIN / "tpu-fleet", command, *words]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_without_a_grant(cloud: Emulator, play: Play) -> None:
    fleet = {"fleet_allocations": None}
    assert "nothing may be created" in " ".join(
        play("tpu-fleet", "grant", "show", fleet=fleet).split()
    )
    fleet = {"fleet_allocations": "unrestricted"}
    assert "unrestricted" in play("tpu-fleet", "grant", "show", fleet=fleet)
