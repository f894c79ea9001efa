"""Mistakes of newcomers in a fleet file: the real commands refuse each, before anything changes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from emulator import ROOT, Emulator
from warm_ansible import run_ansible

Play = Callable[..., str]
ZONE = Emulator.zone
SLICE = {"accelerator_type": "v4-8", "zone": ZONE}
GOOD: dict[str, Any] = {
    "fleet_allocations": [
        {"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 64},
        {"zone": "europe-west4-a", "generation": "v2", "tier": "on_demand", "chips": 64},
    ],
    "fleet_slices": [{**SLICE, "name": "good", "tags": ["mosh"]}],
    "fleet_users": [{"name": "matt", "uid": 2001}],
}
RUN = {"user": "matt", "slices": ["good"], "command": "true"}


def user(name: str, uid: int, **more: Any) -> dict[str, Any]:
    return {"fleet_users": [{"name": name, "uid": uid, **more}]}


def venv(name: str, **more: Any) -> dict[str, Any]:
    return {"fleet_venvs": [{"name": name, "path": f"/opt/venvs/{name}", **more}]}


def run(name: str, **more: Any) -> dict[str, Any]:
    return {"fleet_runs": [{**RUN, "name": name, **more}]}


def one_slice(name: str, **more: Any) -> dict[str, Any]:
    return {"fleet_slices": [{**SLICE, "name": name, **more}]}


UNSET = "{{ lookup('ansible.builtin.env', 'TPU_FLEET_TEST_NO_SUCH_KEY') }}"
NO_FILE = "{{ lookup('ansible.builtin.file', 'keys/bob.pub') }}"
BOOK = {"user": "matt", "venv": "jax", "port": 8888}
# All in one fleet file: what is written; field, value, what is wrong and the remedy, in one line.
MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "zone that is none": (
        one_slice("m1", zone="us_central2-b"),
        [".zone = 'us_central2-b': is not the name of a zone. Zones look like us-central2-b."],
    ),
    "zone spelt wrong": (
        one_slice("m2", zone="us-centrall2-b"),
        ["= 'm2': is outside of the grant", "us-centrall2-b", "Make the slices fit the grant"],
    ),
    "type outside of the grant": (
        one_slice("m3", accelerator_type="v5p-8"),
        ["= 'm3': is outside of the grant", "v5p-8", "Make the slices fit the grant"],
    ),
    "type spelt wrong": (
        one_slice("m4", accelerator_type="v2_8", zone="europe-west4-a"),
        [".accelerator_type = 'v2_8': is not a known accelerator type. Did you mean v2-8?"],
    ),
    "tier spelt wrong": (
        one_slice("m5", tier="reservd"),
        [".tier = 'reservd': is not one of the choices. Did you mean reserved?"],
    ),
    "unknown key": (
        one_slice("m6", runtime="tpu-ubuntu2204-base"),
        [".runtime = 'tpu-ubuntu2204-base': is not a known key. Did you mean runtime_version?"],
    ),
    "unknown key of a role": (
        run("m7", comand="python train.py"),
        [".comand = 'python train.py': is not a known key. Did you mean command?"],
    ),
    "duplicate port": (
        {
            "fleet_notebooks": [{**BOOK, "name": "m8a"}, {**BOOK, "name": "m8b"}],
            **venv("jax", python="3.11"),
        },
        [".port = 8888: is the port of fleet_notebooks[0]"],
    ),
    "missing slice": (
        run("m9", slices=["goood"]),
        [".slices[0] = 'goood': is not a slice of this fleet file. Did you mean good?"],
    ),
    "missing venv": (
        run("m10", venv="jaxx"),
        [".venv = 'jaxx': is not a venv of this fleet file. Did you mean jax?"],
    ),
    "missing tree": (
        run("m11", code="digits"),
        [".code = 'digits': is not a tree of this fleet file. Declare it in fleet_code."],
    ),
    "missing user": (
        run("m12", user="mat"),
        [".user = 'mat': is not a user of this fleet file. Did you mean matt?"],
    ),
    "user name": (
        user("Anna Smith", 2013),
        [".name = 'Anna Smith': is not a user name that Linux takes. Use a-z, 0-9"],
    ),
    "duplicate uid": (
        user("second", 2001),
        [".uid = 2001: is used twice, first by fleet_users[0]. Give each its own uid."],
    ),
    "sudo: yes": (
        user("m15", 2015, sudo=True),
        [".sudo = True: is not a sudo rule. Use null, all, or a list of whole paths"],
    ),
    "user of the image": (
        user("ubuntu", 2016),
        [".name = 'ubuntu': is who Ansible logs in as", "Remove it, or let Ansible log in as"],
    ),
    "root": (
        user("root", 2017),
        [".name = 'root': belongs to the system", "Take another name, such as that of the person."],
    ),
    "user of the system": (
        user("www-data", 2018),
        [".name = 'www-data': belongs to the system", "Take another name, such as that of the"],
    ),
    "Python 3.10 without quotation marks": (
        venv("m19", python=3.1),
        [".python = 3.1: must be a text, not a number. Put it in quotes."],
    ),
    "Python that nobody has": (
        venv("m20", python="3.19"),
        [".python = '3.19': is not an available Python. Use 3.8 to 3.15."],
    ),
    "text in place of a list": (
        venv("m21", packages="numpy"),
        [".packages = 'numpy': must be a list, not a text. Write it as a list: [a, b], or each"],
    ),
    "share of no slice": (
        {"fleet_shares": [{"name": "m22", "path": "/mnt/m22", "slice": "godo"}]},
        [".slice = 'godo': is not a slice of this fleet file. Did you mean good?"],
    ),
    "disk at a folder of the system": (
        {"fleet_disks": [{"name": "m23", "path": "/etc", "slices": ["good"]}]},
        [".path = '/etc': is a folder of the system. Use a separate folder"],
    ),
    "secret that is not set": (
        {
            "fleet_secrets": [
                {"name": "m24", "user": "matt", "preset": "wandb", "values": {"api_key": UNSET}}
            ]
        },
        ["fleet_secrets[0].values.api_key: is empty. Set the variable, or unlock the vault"],
    ),
    "the whole Internet": (
        {"fleet_mosh": {"source_ranges": ["0.0.0.0/0"], "target_tags": ["mosh"]}},
        ["fleet_mosh: source_ranges: 0.0.0.0/0 is every address. Give the addresses"],
    ),
    "package that has no name": (
        {"fleet_packages": ["libpython3.11; rm"]},
        ["[0] = 'libpython3.11; rm': is no name of a package. Use the name that apt knows"],
    ),
    "misspelt variable": (
        {"user_account_users": []},
        ["user_account_users: no such variable", "story.yml", "mean fleet_users?"],
    ),
    "name of a role": (
        {"training_runs": []},
        ["training_runs: no such variable", "story.yml", "Did you mean fleet_runs?"],
    ),
    "key that cannot be read": (
        user("bob", 2028, keys=[NO_FILE]),
        [
            ".keys[0]: cannot be read in ",
            "story.yml",
            "'keys/bob.pub'",
            "inventory_dir ~ '/../keys/bob.pub'",
        ],
    ),
}
# What stands in files of groups and hosts that are yet to come.
ELSEWHERE = {
    "group_vars/tpu_slice_good.yml": ("python_envs", "fleet_venvs"),
    "group_vars/tpu/more.yaml": ("host_base_packges", "fleet_base_packages"),
    "host_vars/good.yml": ("training_run_rnus", "fleet_runs"),
}


def together() -> dict[str, Any]:
    """One fleet file with all the mistakes."""
    fleet: dict[str, Any] = {name: list(entries) for name, entries in GOOD.items()}
    for fragment, _words in MISTAKES.values():
        for variable, value in fragment.items():
            if isinstance(value, list):
                fleet[variable] = [*fleet.get(variable, []), *value]
            else:
                fleet[variable] = value
    return fleet


@pytest.fixture(scope="module")
def told(printed: str) -> list[str]:
    """The problems that one command reports, a line each."""
    lines = printed.partition("msg: |-\n")[2].partition("\n\nPLAY RECAP")[0].splitlines()
    return [line.strip() for line in lines]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, grounds: Any) -> Iterator[str]:
    """What one command prints about all mistakes."""
    cloud = Emulator()
    ground = grounds(cloud, tmp_path_factory.mktemp("mistakes"))
    # The key that is made where no other one is named; its public half is none of the mistakes.
    ground.declare({**together(), "fleet_ssh_public_key": "ssh-ed25519 AAAA"})
    for file, (name, _meant) in ELSEWHERE.items():
        path = ground.inventory / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}: []\n")
    done = shell(ground, "ansible-playbook", "tpu.fleet.site")
    assert done.returncode == 2, done.stdout + done.stderr
    # Nobody asked Google for anything.
    assert cloud.control("state", method="GET")["nodes"] == []
    yield done.stdout + done.stderr
    cloud.stop()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_field_value_and_remedy(told: list[str], mistake: str) -> None:
    words = MISTAKES[mistake][1]
    assert [line for line in told if all(word in line for word in words)], "\n".join(told)


@pytest.mark.parametrize("file", ELSEWHERE)
def test_a_misspelt_variable_of_slices_and_workers_is_told(told: list[str], file: str) -> None:
    name, meant = ELSEWHERE[file]
    [line] = [line for line in told if line.startswith(f"{name}: no such variable, in ")]
    assert file in line
    assert line.endswith(f"Did you mean {meant}?")


def test_each_is_told_once(told: list[str], printed: str) -> None:
    assert len(told) > 20
    assert [line for line in told if printed.count(line) > 1] == []


def test_nothing_else_is_told(told: list[str]) -> None:
    """No mistake makes another one."""
    problems = [line for line in told if ": " in line and not line.startswith("Nothing was")]
    expected = [words for _fleet, words in MISTAKES.values()]
    expected += [[name, meant] for name, meant in ELSEWHERE.values()]
    extra = [p for p in problems if not any(all(w in p for w in words) for words in expected)]
    assert extra == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("fleet_slices:\n  - name: solo\n   zone: x\n", 3, "Look at the indentation of this line"),
        ("fleet_slices:\n  - name: a\n      zone: x\n", 3, "Look at the indentation of this line"),
        ("fleet_slices:\n  - name: solo\n\tzone: x\n", 3, "Write spaces in place of the tab"),
        ('fleet_zone: "us-central2-b\nfleet_owner: me\n', 1, "Close the quotation mark"),
        ("fleet_zone: {{ zone }}\n", 1, "into quotation marks"),
    ],
)
def test_what_is_no_yaml_is_told_with_file_and_line(
    ground: Any, text: str, line: int, words: str
) -> None:
    file = ground.inventory / "group_vars" / "all" / "more.yml"
    file.write_text(text)
    done = shell(ground, "ansible-inventory", "--list")
    assert done.returncode != 0
    # Only that: what Ansible's plugins for YAML and INI files make of the inventory is no news.
    [said] = done.stderr.splitlines()
    assert re.search(rf"group_vars/all/more\.yml, line {line}: .*{words}", said), said


@pytest.mark.parametrize(
    "words",
    [
        ("ansible-playbook", "tpu.fleet.site"),
        # Site, which CI has, begins with this one; status reads the inventory as all commands do.
        pytest.param(("ansible-playbook", "tpu.fleet.check"), marks=pytest.mark.night),
        pytest.param(("tpu-fleet", "exec", "--", "hostname"), marks=pytest.mark.night),
        ("tpu-fleet", "status"),
    ],
    ids=" ".join,
)
def test_every_command_tells_what_is_no_yaml(ground: Any, words: tuple[str, ...]) -> None:
    (ground.inventory / "group_vars" / "tpu.yml").write_text("a: [1\nb: 2\n")
    done = shell(ground, *words)
    assert done.returncode != 0
    [said] = (done.stdout + done.stderr).splitlines()
    assert "group_vars/tpu.yml, line 2: " in said


EMPTY = """
fleet_slices:
fleet_users:
fleet_venvs:
fleet_code:
fleet_runs:
fleet_shares:
fleet_disks:
fleet_mosh:
fleet_shells:
"""


@pytest.mark.parametrize(
    "playbook",
    # Site, which CI has, takes the same variables.
    ["site", pytest.param("reprovision", marks=pytest.mark.night)],
)
def test_an_empty_section_is_empty(ground: Any, playbook: str) -> None:
    (ground.inventory / "group_vars" / "all" / "story.yml").write_text(EMPTY)
    done = shell(ground, "ansible-playbook", f"tpu.fleet.{playbook}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_empty_section_is_empty_for_every_role(ground: Any) -> None:
    """Whatever a role takes of lists and mappings: workers see it as the controller does."""
    from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.variable_files import (
        empty_values,
    )

    values = empty_values()
    assert {"fleet_git_keys", "fleet_limits", "fleet_mosh"} <= set(values)
    ground.cloud.populate(1, "solo", labels={"tpu-fleet": "managed"})
    (ground.inventory / "group_vars" / "tpu_slice_solo_0.yml").write_text(
        "".join(f"{name}:\n" for name in values)
    )
    done = shell(ground, "ansible-inventory", "--host", "solo-0")
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in values} == values


# In CI tests/cloud/modules/test_fleet.py has nodes of others, and a teardown refuses one
# in test_playbooks.py.
@pytest.mark.night
def test_a_node_of_somebody_else_is_not_taken(cloud: Emulator, play: Play) -> None:
    cloud.populate(1, prefix="theirs")
    fleet = {**GOOD, "fleet_slices": [{**SLICE, "name": "theirs-0"}]}
    out = play("ansible-playbook", "tpu.fleet.provision", fleet=fleet, ok=False)
    assert "theirs-0" in out
    assert "adopt: true" in out


def test_what_the_docs_show_of_keys_works_when_pasted(ground: Any) -> None:
    page = (ROOT / "docs/around-the-slice.md").read_text()
    [block] = re.findall(r"```yaml\n(fleet_project_keys:.*?)```", page, re.DOTALL)
    assert "lookup(" in block
    story = ground.inventory / "group_vars" / "all" / "story.yml"
    story.write_text(f"{EMPTY}\n{block}")
    key = yaml.safe_load(block)["fleet_project_keys"][0]["key"]
    refused = shell(ground, "ansible-playbook", "tpu.fleet.provision", "--check")
    assert "fleet_project_keys[1].key: cannot be read" in refused.stdout
    (ground.folder / "keys").mkdir()
    (ground.folder / "keys/bob.pub").write_text(f"{key}\n")
    done = shell(ground, "ansible-playbook", "tpu.fleet.provision", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def shell(ground: Any, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder that has nothing to do with the inventory."""
    env = {**ground.env, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
    return run_ansible(words, env, ground.folder)
