"""A machine that sets itself up from what was published: real program, real ansible-playbook."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage import Folder
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import wish as apply_wish
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import agent
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.wish import Common, Given, order
from ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup.publish import Slice, publish
from shipped import with_roles

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, {agent!r})
from tpu_fleet_apply import boot, first
from tpu_fleet_apply.engine import engine_of
from tpu_fleet_apply.place import Place
from tpu_fleet_apply.stamp import Watch
folder = Path({folder!r})
first.STATUS = folder / "self-setup.json"
first.KNOWN = folder / "state" / "known.json"
watch = Watch(trees=(str(folder / "etc"),), closed=(), files=(), homes=(), units=())
place = Place(
    folder / "state",
    folder / "programs",
    folder / "logs",
    folder / "state.json",
    folder / "units",
    watch,
)
class Published:
    def read(self, name):
        try:
            return (folder / "published" / name).read_bytes()
        except OSError as error:
            raise first.Trouble(str(error))
if first.is_over():
    sys.exit(7)
here = boot.Machine("222", "us-central2-b", 0, {addresses!r}, "")
pointer = json.loads(json.loads(Published().read("slices/solo.json"))["pointer"])
boot.Place, boot.machine = lambda: place, lambda: here
first.source_of = lambda _place: Published()
sys.exit(boot.main(json.dumps({{"place": {{}}, "pointer": pointer}})))
"""
TASKS = """
- name: Write what it is given
  ansible.builtin.copy:
    content: "{{{{ {role}_text }}}} {{{{ hostvars['as-published'].found | default('alone') }}}}\\n"
    dest: {folder}/etc/{role}
    mode: "0644"
"""
ROLES = ("first", "code_checkout")


class Machine:
    """One that finds what was published in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("etc", "published", "units"):
            (folder / name).mkdir(parents=True)
        (folder / "agent.pyz").write_bytes(agent())
        self.values: dict[str, Any] = {
            "first_text": "at {{ tpu_vm_internal_ip }}",
            "code_checkout_text": "10.0.0.2",
            "fleet_code": [{"name": "t"}],
        }

    def code(self) -> bytes:
        return with_roles({role: TASKS.format(role=role, folder=self.folder) for role in ROLES})

    def publish(self) -> None:
        uses = {role: [f"{role}_text", "tpu_vm_internal_ip"] for role in ROLES}
        given = Given(self.values, {"tpu_vm_internal_ip": "10.0.0.2"}, uses)
        made = order("solo", given, {}, Common(ROLES, self.code(), frozenset()))
        address = {"internal_ip": "10.0.0.2", "external_ip": ""}
        one = Slice("solo", "111", [made], [address], found={"__code_checkout_looked": "c1"})
        publish(Folder(str(self.folder / "published")), [one], agent(), "", "now", check=False)

    def boot(self, addresses: tuple[str, ...] = ("10.0.0.7",)) -> tuple[int, str]:
        program = PROGRAM.format(
            agent=str(self.folder / "agent.pyz"), folder=str(self.folder), addresses=list(addresses)
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "self-setup.json").read_text())
        return found

    def text(self, role: str) -> str:
        return (self.folder / "etc" / role).read_text()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    monkeypatch.setattr(apply_wish, "ENVIRONMENT", {"program": program})
    target = "ansible_collections.tpu.fleet.plugins.plugin_utils._self_setup.publish.sign"
    monkeypatch.setattr(target, lambda _text, _key: "signed")
    made = Machine(tmp_path / "machine")
    made.publish()
    return made


def test_it_becomes_what_was_published_at_its_own_address(machine: Machine) -> None:
    code, told = machine.boot()
    assert (code, machine.status["state"]) == (0, "done"), told
    assert machine.text("first") == "at 10.0.0.7 alone\n"
    # What the slice agreed on was known, and addresses are those of today everywhere.
    assert machine.text("code_checkout") == "10.0.0.7 alone\n"
    assert "changed: tpu.fleet.first : Write what it is given" in told
    # At the next boot it does not even look.
    assert machine.boot()[0] == 7


# In CI the test above has a machine that becomes what was published.
@pytest.mark.night
def test_what_was_agreed_on_is_in_reach(machine: Machine) -> None:
    machine.values["code_checkout_text"] = "{{ hostvars['as-published'].__code_checkout_looked }}"
    machine.publish()
    assert machine.boot()[0] == 0
    assert machine.text("code_checkout") == "c1 alone\n"


# In CI tests/unit/plugins/module_utils/_apply_agent/test_first.py has the further tries.
@pytest.mark.night
def test_a_failure_is_tried_again(machine: Machine) -> None:
    (machine.folder / "etc" / "first").mkdir()
    code, told = machine.boot()
    assert (code, machine.status["state"]) == (1, "failed"), told
    assert "1 task failed" in machine.status["why"]
    # Whatever is in the way meanwhile, what was begun is ended.
    files = machine.folder / "published" / "files"
    files.rename(files.with_name("away"))
    assert machine.boot()[0] == 1
    assert machine.status["state"] == "failed"
    assert "No such file" in machine.status["why"]
    files.with_name("away").rename(files)
    (machine.folder / "etc" / "first").rmdir()
    assert machine.boot()[0] == 0
    assert machine.status["state"] == "done"


def altered(machine: Machine) -> None:
    for path in (machine.folder / "published" / "files").iterdir():
        path.write_bytes(path.read_bytes() + b" ")


def gone(machine: Machine) -> None:
    for path in (machine.folder / "published" / "files").iterdir():
        path.unlink()


def a_controller_is_at_work(machine: Machine) -> None:
    lock = machine.folder / "state" / "lock"
    lock.parent.mkdir(mode=0o700)
    machine.held = lock.open("w")  # type: ignore[attr-defined]
    fcntl.flock(machine.held, fcntl.LOCK_EX)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("trouble", "addresses", "why"),
    [
        (altered, ("10.0.0.7",), "the received file has"),
        (gone, ("10.0.0.7",), "No such file"),
        (a_controller_is_at_work, ("10.0.0.7",), "has been applying roles here"),
        (lambda _machine: None, ("10.0.0.7", "10.0.0.8"), "2 workers now, and what is published"),
    ],
)
def test_nothing_is_begun(
    machine: Machine, trouble: Callable[[Machine], None], addresses: tuple[str, ...], why: str
) -> None:
    trouble(machine)
    code, told = machine.boot(addresses)
    assert (code, machine.status["state"]) == (1, "waiting"), told
    assert why in machine.status["why"]
    assert list((machine.folder / "etc").iterdir()) == []


# In CI tests/unit/plugins/module_utils/_apply_agent/test_first.py has when there is nothing to do.
@pytest.mark.night
def test_what_a_controller_did_stays(machine: Machine) -> None:
    assert machine.boot()[0] == 0
    # As if it had been one: nothing here knows of a beginning of our own.
    (machine.folder / "self-setup.json").unlink()
    machine.values["first_text"] = "older"
    machine.publish()
    assert machine.boot()[0] == 7
    assert machine.text("first") == "at 10.0.0.7 alone\n"
