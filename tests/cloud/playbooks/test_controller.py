"""What the playbooks do on the computer that they are run on."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emulator import ROOT, Emulator

Play = Callable[..., str]
OURS = {"tpu-fleet": "managed"}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_was_there_keeps_its_mode(ground: Any, play: Play) -> None:
    theirs = ground.folder / "theirs"
    theirs.mkdir()
    theirs.chmod(0o1777)
    key = {"fleet_ssh_private_key_file": str(theirs / "key")}
    # The key is not there, and then it is.
    for _ in range(2):
        play("ansible-playbook", "tpu.fleet.provision", fleet=key)
        assert mode_of(theirs) == 0o1777
        assert mode_of(theirs / "key") == 0o600
    # What we make is nobody else's.
    play(
        "ansible-playbook", "tpu.fleet.provision", fleet={"fleet_state_dir": f"{ground.folder}/new"}
    )
    assert mode_of(ground.folder / "new") == 0o700
    open_to_all = {"fleet_state_dir": str(theirs)}
    out = play("ansible-playbook", "tpu.fleet.provision", fleet=open_to_all, ok=False)
    assert "fleet_state_dir = '" in out
    assert "is a folder that others may write to" in out
    assert f"chmod go-w {theirs}" in out


def variables(play: Play, host: str, fleet: dict[str, Any]) -> dict[str, Any]:
    words = ("ansible", host, "-m", "debug", "-a", "var=hostvars[inventory_hostname]", "-o")
    shown, _rest = json.JSONDecoder().raw_decode(play(*words, fleet=fleet).partition("=> ")[2])
    return dict(shown["hostvars[inventory_hostname]"])


def test_two_files_are_a_whole_inventory(cloud: Emulator, ground: Any, play: Play) -> None:
    cloud.populate(1, prefix="ours", labels=OURS)
    (ground.folder / "state").mkdir(mode=0o700)
    (ground.folder / "state/key.pub").write_text("ssh-ed25519 AAAA me\n")
    # What README's table names is all that somebody copies.
    named = set(re.findall(r"\]\(inventory/(\S+)\)", (ROOT / "README.md").read_text()))
    for path in ground.inventory.rglob("*.yml"):
        if str(path.relative_to(ground.inventory)) not in named:
            path.unlink()
    told = variables(play, "ours-0", {})
    assert told["ansible_user"] == "ubuntu"
    assert told["ansible_become"] is True
    assert told["ansible_ssh_private_key_file"] == f"{ground.folder}/state/key"
    assert told["fleet_ssh_public_key"] == "ssh-ed25519 AAAA me"
    assert told["fleet_owner"] == "managed"
    assert told["code_checkout_snapshot_dir"] == f"{ground.folder}/state/snapshots"
    assert named == {"fleet.tpu.yml", "group_vars/all/fleet.yml"}
    # What the fleet file says comes first, and holds for all of it.
    mine = {"fleet_ssh_user": "me", "fleet_ssh_private_key_file": "~/.ssh/mine"}
    told = variables(play, "ours-0", {**mine, "fleet_ssh_public_key": "ssh-ed25519 BBBB me"})
    assert told["ansible_user"] == "me"
    assert told["ansible_ssh_private_key_file"] == str(Path("~/.ssh/mine").expanduser())


def second_fleet(ground: Any, owner: str) -> None:
    where = ground.inventory / "fleet.tpu.yml"
    where.write_text(where.read_text().replace("owner: managed", f"owner: {owner}"))


# Of 32 bytes, as OpenSSH writes it.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
ALICE = {"name": "alice", "uid": 2001, "keys": [KEY]}
BOB = {"name": "bob", "uid": 2002, "keys": [KEY]}


def test_two_fleets_leave_each_others_folders_alone(ground: Any, play: Play) -> None:
    state = ground.folder / "state"
    # What a version before wrote, when nobody noted whose it is.
    state.mkdir(mode=0o700)
    (state / "rest.json").write_text("{}")
    words = ("ansible-playbook", "tpu.fleet.onboarding")
    play(*words, fleet={"fleet_users": [ALICE]})
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    # The list of the workers is of the inventory's files, whose owner changes here.
    before = {path: text for path, text in before.items() if path.parent != state / "workers"}
    assert state / "rest.json" in before
    assert state / "onboarding/alice/README.txt" in before
    second_fleet(ground, "night")
    out = play(*words, fleet={"fleet_users": [BOB]})
    for path, content in before.items():
        assert path.read_bytes() == content, path
    theirs = next(state.glob("fleets/night*"))
    assert (theirs / "onboarding/bob/README.txt").is_file()
    assert (theirs / "ssh_config").is_file()
    assert not (theirs / "onboarding/alice").exists()
    assert f"ssh -F {theirs}/ssh_config HOST" in " ".join(out.split())
    assert str(theirs / "onboarding/bob") in out
    # Also where both were given the same folder in their own files.
    for playbook in ("onboarding", "ssh_config"):
        given = {"fleet_users": [BOB], "fleet_state_dir": str(state)}
        out = play("ansible-playbook", f"tpu.fleet.{playbook}", fleet=given, ok=False)
        assert "keeps the state of another fleet (managed in local-project" in out
        assert "Take fleet_state_dir out of your variables" in out
    for path, content in before.items():
        assert path.read_bytes() == content, path


def test_the_owner_is_written_in_one_place(ground: Any, play: Play) -> None:
    second_fleet(ground, "night")
    out = play("ansible-playbook", "tpu.fleet.provision", fleet={"fleet_owner": "day"}, ok=False)
    assert (
        "fleet_owner = 'day': is not the owner of what the inventory shows, which is night" in out
    )
    assert "fleet.tpu.yml, and nowhere else" in out
