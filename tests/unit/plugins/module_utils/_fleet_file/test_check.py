from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    check_variable_names,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema import values as rules
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import UNREADABLE, Problem
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import FLEET_NAMES
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

ROLES = role_keys(fleet_options())


def check_fleet(data: dict[str, Any]) -> list[Problem]:
    return check_fleet_file(data, ROLES)


def blob(*fields: bytes) -> str:
    return base64.b64encode(b"".join(len(f).to_bytes(4, "big") + f for f in fields)).decode()


KEY = f"ssh-ed25519 {blob(b'ssh-ed25519', b'k' * 32)} alice@laptop"


def fleet(**changes: Any) -> dict[str, Any]:
    """Return a correct fleet file with some variables replaced."""
    return {
        "fleet_project": "my-project",
        "fleet_zone": None,
        "fleet_ssh_user": "ubuntu",
        "fleet_ssh_private_key_file": "~/.ssh/tpu_fleet",
        "fleet_allocations": "unrestricted",
        "fleet_allocation_warn_before": "7d",
        "fleet_prune": "false",
        "fleet_prices": [
            {
                "generation": "v4",
                "region": "us-central2",
                "tier": "spot",
                "usd_per_chip_hour": 1,
            }
        ],
        "fleet_slices": [
            {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"},
            {
                "name": "pair",
                "accelerator_type": "v4-16",
                "zone": "us-central2-b",
                "runtime_version": "tpu-ubuntu2204-base",
                "tier": "spot",
                "labels": {"team": "vision"},
            },
            {
                "name": "best",
                "accelerator_types": ["v6e-16", "v5litepod-16"],
                "zones": ["europe-west4-a", "us-east1-d"],
                "tier": "spot",
                "strategy": "race",
                "valid_for": "6h",
                "max_run_duration": "1h30m",
                "on_preempt": "keep",
                "on_grant_end": "delete",
                "recreate": True,
                "adopt": False,
                "boot_disk_size": "200GiB",
            },
            {
                "name": "ours",
                "accelerator_type": "v4-8",
                "zone": "us-central2-b",
                "tier": "reserved",
                "reservation": "lab",
                "queued": True,
                "valid_for": "2d",
            },
        ],
        "fleet_users": [
            {"name": "alice", "uid": 2001, "keys": [KEY], "sudo": "all"},
            {"name": "bob", "uid": 2002, "sudo": ["/usr/bin/apt-get"], "shell": "/bin/bash"},
        ],
        "fleet_groups": [{"name": "lab", "gid": 3000}],
        "fleet_venvs": [{"name": "jax", "path": "/opt/venvs/jax", "python": "3.11"}],
        "fleet_code": [
            {"name": "app", "user": "root", "local_path": "examples"},
            {"name": "lib", "user": "alice", "repo": "https://example.org/x", "version": "v1"},
        ],
        "fleet_runs": [
            {
                "name": "digits",
                "slices": ["solo", "pair"],
                "user": "alice",
                "command": "python train.py",
                "venv": "jax",
                "code": "app",
                "env": {"SEED": "1"},
            }
        ],
        **changes,
    }


def slice_with(**fields: Any) -> dict[str, Any]:
    entry = {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b", **fields}
    return fleet(fleet_slices=[entry], fleet_runs=[])


PLACES: dict[str, Any] = {"zone": None, "zones": ["us-east1-d", "europe-west4-a"]}
TWO_TYPES: dict[str, Any] = {
    "accelerator_type": None,
    "accelerator_types": ["v6e-8", "v5litepod-8"],
}
GRANT: dict[str, Any] = {
    "zone": "us-central2-b",
    "generation": "v4",
    "tier": "on_demand",
    "chips": 8,
}
PRICE: dict[str, Any] = {
    "generation": "v4",
    "region": "us-central2",
    "tier": "spot",
    "usd_per_chip_hour": 1.5,
}


def granted(*slices: dict[str, Any], chips: int = 8) -> dict[str, Any]:
    """Return a fleet file with slices of v4-8 beside a grant of so many chips."""
    named = [
        {"name": f"s{i}", "accelerator_type": "v4-8", "zone": "us-central2-b", **entry}
        for i, entry in enumerate(slices)
    ]
    return fleet(fleet_slices=named, fleet_allocations=[{**GRANT, "chips": chips}], fleet_runs=[])


def user_with(**fields: Any) -> dict[str, Any]:
    entry = {"name": "alice", "uid": 2001, **fields}
    return fleet(fleet_users=[entry], fleet_runs=[], fleet_code=[])


def test_there_are_no_passwords_and_none_is_shown() -> None:
    (problem,) = check_fleet(user_with(password="evil"))
    assert problem.field == "fleet_users[0].password"
    assert "there are no passwords: ssh keys open the machines" in str(problem)
    assert "evil" not in str(problem)


def run_with(**fields: Any) -> dict[str, Any]:
    return fleet(fleet_runs=[{**fleet()["fleet_runs"][0], **fields}])


@pytest.mark.parametrize(
    "data",
    [
        fleet(),
        {},
        {"fleet_slices": []},
        granted({}, {}),
        # What has several places is not added up: it may be somewhere else.
        granted({}, {}, {"zone": None, "zones": ["us-central2-b", "us-central1-a"]}),
        # Dates are the planner's business.
        granted({}) | {"fleet_allocations": [{**GRANT, "ends": "2001-01-01"}]},
        slice_with(max_run_duration="4h", valid_for="90m"),
        slice_with(zone=None, zones=["us-central2-b"]),
    ],
)
def test_nothing_wrong(data: dict[str, Any]) -> None:
    assert [str(problem) for problem in check_fleet(data)] == []


TABLE = [
    # Project, zones, slices.
    (fleet(fleet_project="My Project"), "fleet_project", "My Project", "project id"),
    (fleet(fleet_project=7), "fleet_project", 7, "quotes"),
    (fleet(fleet_zone="us-central2"), "fleet_zone", "us-central2", "region"),
    (fleet(fleet_slices={"a": 1}), "fleet_slices", {"a": 1}, "must be a list"),
    (slice_with(name="Solo"), "fleet_slices[0].name", "Solo", "not a name for a TPU"),
    (slice_with(name="a" * 64), "fleet_slices[0].name", "a" * 64, "63"),
    (slice_with(zone="moon"), "fleet_slices[0].zone", "moon", "not the name of a zone"),
    (slice_with(zone=None), "fleet_slices[0].zone", None, "fleet_zone"),
    (slice_with(tier="sopt"), "fleet_slices[0].tier", "sopt", "Did you mean spot"),
    (slice_with(zoen="x"), "fleet_slices[0].zoen", "x", "Did you mean zone"),
    (
        slice_with(accelerator_type="v4-9"),
        "fleet_slices[0].accelerator_type",
        "v4-9",
        "not a known accelerator type. Did you mean v4-",
    ),
    (
        slice_with(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv5"),
        "fleet_slices[0].runtime_version",
        "v2-alpha-tpuv5",
        "not a runtime for v6e-8. Use v2-alpha-tpuv6e",
    ),
    (slice_with(labels={"Team": "x"}), "fleet_slices[0].labels.Team", "x", "label key"),
    (slice_with(labels={"team": 1}), "fleet_slices[0].labels.team", 1, "quotes"),
    (slice_with(labels={"tpu-fleet": "x"}), "fleet_slices[0].labels.tpu-fleet", "x", "itself"),
    (slice_with(metadata={"a b": "x"}), "fleet_slices[0].metadata.a b", "x", "metadata key"),
    (slice_with(external_ips="no"), "fleet_slices[0].external_ips", "no", "true or false"),
    (slice_with(data_disks=["d"]), "fleet_slices[0].data_disks", ["d"], "entries of fleet_disks"),
    (slice_with(disks=["d"]), "fleet_slices[0].disks", ["d"], "entries of fleet_disks"),
    (slice_with(accelerator_type=None), "fleet_slices[0].accelerator_type", None, "is missing"),
    (
        slice_with(accelerator_types=["v4-16"]),
        "fleet_slices[0].accelerator_types",
        ["v4-16"],
        "stands beside accelerator_type",
    ),
    (
        slice_with(accelerator_type=None, accelerator_types=[]),
        "fleet_slices[0].accelerator_types",
        [],
        "is empty",
    ),
    (
        slice_with(accelerator_type=None, accelerator_types=["v4-8", "v4-9"]),
        "fleet_slices[0].accelerator_types[1]",
        "v4-9",
        "not a known accelerator type",
    ),
    (
        slice_with(**{**TWO_TYPES, "runtime_version": "v2-alpha-tpuv6e"}),
        "fleet_slices[0].runtime_version",
        "v2-alpha-tpuv6e",
        "is not a runtime for v5litepod-8. Leave it out: then each type gets",
    ),
    (
        slice_with(zones=["us-east1-d"]),
        "fleet_slices[0].zones",
        ["us-east1-d"],
        "stands beside zone",
    ),
    (
        slice_with(zone=None, zones=["us-east1-d", "moon"]),
        "fleet_slices[0].zones[1]",
        "moon",
        "not the name of a zone",
    ),
    (
        slice_with(zone=None, zones=["us-east1-d", "us-east1-d"]),
        "fleet_slices[0].zones[1]",
        "us-east1-d",
        "twice",
    ),
    (slice_with(strategy="race"), "fleet_slices[0].strategy", "race", "only one place"),
    (
        slice_with(**{**PLACES, "strategy": "race", "queued": False}),
        "fleet_slices[0].queued",
        False,
        "does not go with strategy: race",
    ),
    (
        slice_with(tier="flex_start", queued=False),
        "fleet_slices[0].queued",
        False,
        "does not go with tier: flex_start",
    ),
    (slice_with(valid_for="6h"), "fleet_slices[0].valid_for", "6h", "Set queued: true"),
    (
        slice_with(valid_for="soon", queued=True),
        "fleet_slices[0].valid_for",
        "soon",
        "is not a duration. Write 90s",
    ),
    (slice_with(valid_for=6, queued=True), "fleet_slices[0].valid_for", 6, "Write 6s, or with"),
    (
        slice_with(max_run_duration="0.5h"),
        "fleet_slices[0].max_run_duration",
        "0.5h",
        "is not a duration",
    ),
    (
        slice_with(reservation="lab"),
        "fleet_slices[0].reservation",
        "lab",
        "does not go with tier: on_demand. Set tier: reserved",
    ),
    (
        slice_with(on_bad_chips="delete"),
        "fleet_slices[0].on_bad_chips",
        "delete",
        "report, recreate",
    ),
    (slice_with(on_preempt="stop"), "fleet_slices[0].on_preempt", "stop", "recreate, keep"),
    (
        slice_with(boot_disk_size="1025MiB"),
        "fleet_slices[0].boot_disk_size",
        "1025MiB",
        "Write it in GiB",
    ),
    (slice_with(recreate="yes"), "fleet_slices[0].recreate", "yes", "true or false"),
    # The grant.
    (
        slice_with() | {"fleet_allocations": None},
        "fleet_allocations",
        None,
        "or write fleet_allocations: unrestricted",
    ),
    (
        fleet(fleet_allocations="none"),
        "fleet_allocations",
        "none",
        "must be a list. Write it as a list, each entry beginning with a dash, or as unrestricted",
    ),
    (
        granted({}, {}, {}),
        "fleet_slices[2]",
        "s2",
        "is outside of the grant: the grant holds 8 v4 chips on demand in us-central2-b; 8 are for "
        "other slices (s0: 4, s1: 4); v4-8 needs 4 more",
    ),
    (
        granted({}, {"tier": "spot"}),
        "fleet_slices[1]",
        "s1",
        "does not hold v4-8 as spot in us-central2-b: it holds 8 v4 chips on demand",
    ),
    (
        granted({"zone": None, "zones": ["us-central2-b", "us-central1-a"]}, chips=2),
        "fleet_slices[0]",
        "s0",
        "v4-8 needs 4; the grant does not hold v4-8 on demand in us-central1-a",
    ),
    (
        fleet(fleet_allocation_warn_before="a week"),
        "fleet_allocation_warn_before",
        "a week",
        "is not a duration. Write 90s",
    ),
    (fleet(fleet_prune="perhaps"), "fleet_prune", "perhaps", "neither true nor false"),
    (fleet(fleet_apply="hots"), "fleet_apply", "hots", "not one of the choices"),
    (fleet(fleet_apply_every="often"), "fleet_apply_every", "often", "is not a duration"),
    (
        fleet(fleet_prices=[{**PRICE, "region": "us-central2-b"}]),
        "fleet_prices[0].region",
        "us-central2-b",
        "is not a region",
    ),
    (
        fleet(fleet_prices=[{**PRICE, "usd_per_chip_hour": -1}]),
        "fleet_prices[0].usd_per_chip_hour",
        -1,
        "below zero",
    ),
    (
        fleet(fleet_prices=[{**PRICE, "usd_per_chip_hour": "1"}]),
        "fleet_prices[0].usd_per_chip_hour",
        "1",
        "a number",
    ),
    (fleet(fleet_prices=[{**PRICE, "generation": None}]), "fleet_prices[0]", None, "neither"),
    # Users.
    (user_with(name="Alice"), "fleet_users[0].name", "Alice", "Linux"),
    (user_with(name="1st"), "fleet_users[0].name", "1st", "Linux"),
    (user_with(name="a.b"), "fleet_users[0].name", "a.b", "Linux"),
    (user_with(name="a" * 33), "fleet_users[0].name", "a" * 33, "32"),
    (
        user_with(name="daemon"),
        "fleet_users[0].name",
        "daemon",
        "such as that of the person",
    ),
    (user_with(name="root"), "fleet_users[0].name", "root", "belongs to the system"),
    (user_with(name="ubuntu"), "fleet_users[0].name", "ubuntu", "who Ansible logs in as"),
    (user_with(name="debian"), "fleet_users[0].name", "debian", "account of the image"),
    (user_with(uid="2001"), "fleet_users[0].uid", "2001", "whole number"),
    (user_with(uid=True), "fleet_users[0].uid", True, "whole number"),
    (user_with(uid=10), "fleet_users[0].uid", 10, "1000"),
    (user_with(uid=None), "fleet_users[0].uid", None, "is missing"),
    (user_with(keys=KEY), "fleet_users[0].keys", KEY, "must be a list"),
    (user_with(keys=[KEY[:40]]), "fleet_users[0].keys[0]", KEY[:40], "cut"),
    (user_with(keys=["hello"]), "fleet_users[0].keys[0]", "hello", ".pub"),
    (user_with(sudo="maybe"), "fleet_users[0].sudo", "maybe", "null, all"),
    (user_with(sudo=["apt"]), "fleet_users[0].sudo[0]", "apt", "whole path"),
    (user_with(**{"shell": "zsh"}), "fleet_users[0].shell", "zsh", "whole path"),
    # Venvs and trees.
    (
        fleet(fleet_venvs=[{"name": "jax", "path": "/v", "python": 3.1}]),
        "fleet_venvs[0].python",
        3.1,
        "quotes",
    ),
    (
        fleet(fleet_code=[{"name": "app", "user": "root"}]),
        "fleet_code[0]",
        "app",
        "neither repo nor local_path",
    ),
    (
        fleet(fleet_code=[{"name": "app", "user": "root", "repo": "/x", "local_path": "y"}]),
        "fleet_code[0]",
        "app",
        "both repo and local_path",
    ),
    (
        fleet(fleet_venvs=[{"name": "jax", "path": "/v", "python": "3.19"}]),
        "fleet_venvs[0].python",
        "3.19",
        "is not an available Python. Use 3.8 to 3.15",
    ),
    (
        fleet(fleet_venvs=[{"name": "jax", "path": "/v", "packages": "numpy"}]),
        "fleet_venvs[0].packages",
        "numpy",
        "must be a list, not a text. Write it as a list: [a, b]",
    ),
    (
        fleet(fleet_ssh_private_key_file="keys/fleet"),
        "fleet_ssh_private_key_file",
        "keys/fleet",
        "is not a whole path",
    ),
    # Runs.
    (run_with(name="my run"), "fleet_runs[0].name", "my run", "name for a run"),
    (run_with(slices=["sole"]), "fleet_runs[0].slices[0]", "sole", "Did you mean solo"),
    (
        run_with(multislice=True, slices=["solo"]),
        "fleet_runs[0].multislice",
        True,
        "needs several slices",
    ),
    (run_with(slices="solo"), "fleet_runs[0].slices", "solo", "must be a list"),
    (run_with(user="alicia"), "fleet_runs[0].user", "alicia", "Did you mean alice"),
    (run_with(venv="torch"), "fleet_runs[0].venv", "torch", "fleet_venvs"),
    (run_with(code="ap"), "fleet_runs[0].code", "ap", "Did you mean app"),
    (run_with(command=""), "fleet_runs[0].command", None, "is missing"),
    (run_with(env={"A B": "1"}), "fleet_runs[0].env.A B", None, "environment"),
    (run_with(retries=-1), "fleet_runs[0].retries", -1, "below zero"),
    (run_with(hang_after=-1), "fleet_runs[0].hang_after", -1, "is not a duration. Write 90s"),
    (run_with(grace=600), "fleet_runs[0].grace", 600, "is not a duration. Write 600s, or with"),
    (run_with(step_pattern="step ("), "fleet_runs[0].step_pattern", "step (", "regular"),
    (run_with(step_pattern="step"), "fleet_runs[0].step_pattern", "step", "0 groups"),
    (run_with(stop_signal="KILL"), "fleet_runs[0].stop_signal", "KILL", "signal"),
    (run_with(checkpoint_signal="USR3"), "fleet_runs[0].checkpoint_signal", "USR3", "SIGU"),
    (
        run_with(no_retry_exit_codes=[1, 0]),
        "fleet_runs[0].no_retry_exit_codes[1]",
        0,
        "1 to 255",
    ),
    (run_with(needs_tpu="auto"), "fleet_runs[0].needs_tpu", "auto", "true or false"),
    (run_with(comand="x"), "fleet_runs[0].comand", "x", "Did you mean command"),
    # What other tools call a key.
    (run_with(script="x"), "fleet_runs[0].script", "x", "Did you mean command"),
    (
        fleet(fleet_allocations=[{**GRANT, "until": "2026-12-20"}]),
        "fleet_allocations[0].until",
        "2026-12-20",
        "Did you mean ends",
    ),
    (granted({"tf_version": "1.6"}), "fleet_slices[0].tf_version", "1.6", "mean runtime_version"),
    # The API that follows from a wrong machine type is nobody's mistake.
    (
        slice_with(machine_type="n1-standard-8"),
        "fleet_slices[0].machine_type",
        "n1-standard-8",
        "is not a machine type with TPUs. Leave it out: a TPU VM is the machine",
    ),
    # A grant has nothing to add to a type that does not exist.
    (
        granted({"machine_type": "n1-standard-8"}),
        "fleet_slices[0].machine_type",
        "n1-standard-8",
        "is not a machine type with TPUs. Leave it out: a TPU VM is the machine",
    ),
    (
        granted({"accelerator_type": "v4-31"}),
        "fleet_slices[0].accelerator_type",
        "v4-31",
        "is not a known accelerator type",
    ),
    (
        slice_with(accelerator_type=None, machine_type="n1-standard-8"),
        "fleet_slices[0].machine_type",
        "n1-standard-8",
        "is not a machine type with TPUs. Set accelerator_type in its place",
    ),
]


@pytest.mark.parametrize(("data", "field", "value", "words"), TABLE, ids=[r[1] for r in TABLE])
def test_one_thing_wrong(data: dict[str, Any], field: str, value: Any, words: str) -> None:
    (problem,) = check_fleet(data)
    assert problem.field == field
    assert problem.value == value
    assert words in str(problem)
    assert problem.remedy


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("fleet_slices", "name"),
        ("fleet_users", "name"),
        ("fleet_users", "uid"),
        ("fleet_venvs", "name"),
        ("fleet_code", "name"),
        ("fleet_runs", "name"),
    ],
)
def test_what_must_be_unique(variable: str, key: str) -> None:
    data = fleet()
    entries = data[variable]
    first = entries[0]
    other = {**first, **{name: f"{first[name]}x" for name in ("name", "path") if name in first}}
    if "uid" in first:
        other["uid"] = 2999
    other[key] = first[key]
    data[variable] = [*entries, other]
    (problem,) = check_fleet(data)
    assert problem.field == f"{variable}[{len(entries)}].{key}"
    assert f"first by {variable}[0]" in problem.message


def test_everything_is_reported_at_once() -> None:
    data = fleet(
        fleet_zone="x",
        fleet_slices=[{"name": "A"}, "oops", {"name": "A", "accelerator_type": "v4-8"}],
        fleet_users=[{"name": "Bob", "uid": 1}],
    )
    fields = {problem.field for problem in check_fleet(data)}
    assert {
        "fleet_zone",
        "fleet_slices[0].accelerator_type",
        "fleet_slices[0].name",
        "fleet_slices[1]",
        "fleet_slices[2].name",
        "fleet_users[0].name",
        "fleet_users[0].uid",
        "fleet_runs[0].user",
        "fleet_runs[0].slices[0]",
    } <= fields


def test_a_private_key_is_refused_and_not_shown() -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n-----END OPENSSH PRIVATE KEY-----"
    (problem,) = check_fleet(user_with(keys=[secret]))
    assert "private key" in str(problem)
    assert "secret" not in str(problem)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (KEY, None),
        (f"ssh-rsa {blob(b'ssh-rsa', b'e', b'n' * 257)}", None),
        (f"ssh-rsa {blob(b'ssh-ed25519', b'k' * 32)}", "damaged"),
        (f"ssh-ed25519 {blob(b'ssh-ed25519', b'k' * 31)}", "32 bytes"),
        (f"ssh-dss {blob(b'ssh-dss', b'k' * 32)}", "key type"),
        ("ssh-ed25519", "no key"),
        ("ssh-ed25519 ä", "base64"),
        (f"{KEY}\n{KEY}", "one line"),
        ("", "one line"),
    ],
)
def test_public_keys(key: str, message: str | None) -> None:
    found = rules.public_key(key)
    assert found is None if message is None else message in (found or "")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["fleet_slices", "fleet_ssh_public_key", "fleet_api_endpoint"], []),
        (["fleet_slcies"], ["fleet_slcies"]),
        (["fleet_slice", "training_run_run"], ["fleet_slice", "training_run_run"]),
    ],
)
def test_nearly_right_variable_names(names: list[str], expected: list[str]) -> None:
    assert [problem.field for problem in check_variable_names(names, ROLES)] == expected


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """All fields in a value, each with the way to it."""
    if field:
        yield field, ()
    inner = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else inner:
        at = f"{field}[{key}]" if isinstance(key, int) else f"{field}.{key}" if field else key
        yield from ((name, (key, *way)) for name, way in leaves(item, at))


EXAMPLE = yaml.safe_load((Path(__file__).parents[5] / "docs/fleet-file.example.yml").read_text())


def test_what_cannot_be_read_is_the_only_thing_told_of_it() -> None:
    """Each value of the example in turn cannot be read; nothing that depends on it is wrong."""
    wrong = {}
    for field, way in leaves(EXAMPLE):
        data = copy.deepcopy(EXAMPLE)
        place: Any = data
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = UNREADABLE
        found = [str(problem) for problem in check_fleet_file(data, ROLES, [field])]
        if found:
            wrong[field] = found
    assert wrong == {}


OWN = (
    *("training_data_dir", "training_run_dir", "data_dir", "my_fleet_slices", "fleet_name"),
    *("users", "runs", "slices", "user_accounts_users_of_vision", "__fleet_slices", "team_users"),
    *("python_version", "fleet_home", "tpu_vm_name", "ansible_user", "inventory_dir"),
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("user_account_users", "fleet_users"),
        ("user_accounts_user", "fleet_users"),
        ("users_accounts_users", "fleet_users"),
        ("user_acounts_usres", "fleet_users"),
        ("user_accounts", "fleet_users"),
        ("training_runs", "fleet_runs"),
        ("trainig_run_runs", "fleet_runs"),
        ("python_envs", "fleet_venvs"),
        ("python_env_venv", "fleet_venvs"),
        ("host_base_packges", "fleet_base_packages"),
        ("fleet_slice", "fleet_slices"),
        ("fleet_alocations", "fleet_allocations"),
        ("fleet_ownr", "fleet_owner"),
        ("code_checkouts", "fleet_code"),
        *((name, None) for name in OWN),
    ],
)
def test_misspelt_variables(name: str, meant: str | None) -> None:
    found = check_variable_names([name], ROLES, {name: "group_vars/tpu.yml"})
    expected = f"{name}: no such variable, in group_vars/tpu.yml. Did you mean {meant}?"
    assert [str(problem) for problem in found] == ([expected] if meant else [])


def test_our_own_variables_are_not_misspelt() -> None:
    root = Path(__file__).parents[5]
    text = "".join(
        path.read_text()
        for folder in ("playbooks", "roles", "inventory", "extensions/molecule")
        for path in (root / folder).rglob("*.yml")
    )
    names = set(re.findall(r"^ *([a-z]+_[a-z_0-9]+):", text, re.MULTILINE))
    # A key of slices, what an include is told for itself, and what only the command line names.
    names -= {"data_disks", "fleet_find_attempt", "fleet_run"}
    # Variables of roles, where they are applied alone.
    names -= FLEET_NAMES.keys()
    assert [str(problem) for problem in check_variable_names(names, ROLES)] == []


def test_all_that_names_a_removed_slice_is_told_at_once() -> None:
    run = fleet()["fleet_runs"][0]
    solo = {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"}
    disk = {"name": "data", "size": "10GiB", "zone": "us-central2-b", "slices": ["pair"]}
    wanted = fleet(
        fleet_slices=[solo],
        fleet_disks=[disk],
        fleet_runs=[run, {**run, "name": "alone", "slices": ["pair"]}],
        fleet_shares=[{"name": "home", "path": "/srv/x", "slice": "pair", "slices": ["solo"]}],
    )
    told = [str(problem) for problem in check_fleet_file(wanted, {}) if problem.value == "pair"]
    assert told == [
        "fleet_disks[0].slices[0] = 'pair': is not a slice of this fleet file, and 4 places name "
        "it. If it is to go, remove fleet_shares[0] (home), fleet_runs[1] (alone), "
        "which are for it alone, and take its name out of fleet_disks[0].slices[0] (data), "
        "fleet_runs[0].slices[1] (digits); else declare it in "
        "fleet_slices."
    ]
    # One place alone is more likely a misspelling.
    slices = ["solo", "sola"]
    [told] = map(str, check_fleet_file(fleet(fleet_runs=[{**run, "slices": slices}]), {}))
    assert told.endswith("is not a slice of this fleet file. Did you mean solo?")
