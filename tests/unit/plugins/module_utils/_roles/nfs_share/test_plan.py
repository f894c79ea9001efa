# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts export and which mount, and the files that say so."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.filter.nfs_hosts import nfs_hosts
from ansible_collections.tpu.fleet.plugins.module_utils._host.mounts import unit_name
from ansible_collections.tpu.fleet.plugins.module_utils._roles.nfs_share.plan import (
    DROP_IN,
    EXPORTS,
    SETTINGS,
    UNITS,
    Me,
    Times,
    files,
    plan,
    problems_of,
)


def host(name, worker, address, zone="a"):
    return {"slice": name, "worker": worker, "zone": zone, "address": address}


HOSTS = [
    host("solo", 0, "10.0.0.2"),
    host("pair", 0, "10.0.0.10"),
    host("pair", 1, "10.0.0.9"),
    host("far", 0, "10.9.0.2", "b"),
    host("gone", 0, ""),
]
TEAM = {"name": "team", "path": "/mnt/team", "slice": "solo"}
SERVER = Me("solo", 0, "a")


def clients(**more):
    (export,) = plan([{**TEAM, **more}], HOSTS, SERVER).exports
    return export.clients


def test_the_zone_of_the_server_mounts_what_names_no_slices():
    assert clients() == ("10.0.0.9", "10.0.0.10")
    assert plan([TEAM], HOSTS, Me("far", 0, "b")).idle
    (mount,) = plan([TEAM], HOSTS, Me("pair", 1, "a")).mounts
    assert (mount.server, mount.folder, mount.path) == ("10.0.0.2", "/mnt/team", "/mnt/team")


def test_named_slices_mount_it_wherever_they_are():
    assert clients(slices=["far"]) == ("10.9.0.2",)
    assert plan([{**TEAM, "slices": ["far"]}], HOSTS, Me("pair", 0, "a")).idle
    assert plan([{**TEAM, "slices": ["far"]}], HOSTS, Me("far", 0, "b")).mounts


def test_an_outside_server_is_mounted_by_all():
    share = {"name": "nas", "path": "/mnt/nas", "server": "10.1.1.1", "export_path": "/vol/x"}
    for one in HOSTS:
        found = plan([share], HOSTS, Me(one["slice"], one["worker"], one["zone"]))
        assert [m.folder for m in found.mounts] == ["/vol/x"]
        assert not found.exports


def test_without_an_address_of_the_server_mounts_stay_as_they_are():
    share = {**TEAM, "slice": "gone", "slices": ["pair"]}
    found = plan([share], HOSTS, Me("pair", 0, "a"))
    assert found.mounts == ()
    assert "gone" in found.kept["/mnt/team"]
    assert not found.idle


def test_a_server_without_clients_lets_nobody_in():
    found = files(plan([{**TEAM, "slices": ["gone"]}], HOSTS, SERVER), Times())
    lines = [line for line in found[EXPORTS].splitlines() if not line.startswith("#")]
    assert lines == [], "a folder alone would be exported to everybody"


def test_exports_name_each_client_and_squash_root():
    found = files(plan([{**TEAM, "read_only": True}], HOSTS, SERVER), Times(grace=33))
    line = found[EXPORTS].splitlines()[1]
    assert line.startswith("/mnt/team 10.0.0.9(ro,sync,root_squash,no_subtree_check,sec=sys,fsid=")
    assert line.count("root_squash") == 2
    assert "vers3 = n" in found[SETTINGS]
    assert "grace-time = 33" in found[SETTINGS]
    assert DROP_IN not in found
    assert not [path for path in found if path.endswith("mount")]


@pytest.mark.parametrize(
    ("folder", "disk"),
    [
        ("/data/team", "/data"),
        ("/data/deep/team", "/data/deep"),
        ("/data", "/data"),
        ("/database/team", ""),
        ("/srv/team", ""),
    ],
)
def test_a_folder_on_a_disk_is_exported_while_the_disk_is_there(folder, disk):
    disks = ["/data", "/data/deep", "/boot/efi"]
    other = {"name": "plain", "path": "/srv/plain", "slice": "solo"}
    found = files(plan([other, {**TEAM, "export_path": folder}], HOSTS, SERVER, disks), Times())
    plain, line = found[EXPORTS].splitlines()[1:]
    assert "mountpoint" not in plain
    assert line.count(f",mountpoint={disk})") == (2 if disk else 0)
    # The server waits for the disk, and does without it: the other share is not to go with it.
    after = f"After={unit_name(disk)}.mount\n" if disk else None
    assert ("Requires" in found.get(DROP_IN, "")) is False
    assert found[DROP_IN].endswith(after) if after else DROP_IN not in found


def test_the_server_binds_the_folder_to_the_path_of_the_clients():
    found = files(plan([{**TEAM, "export_path": "/data/team"}], HOSTS, SERVER), Times())
    assert "What=/data/team\n" in found[f"{UNITS}/mnt-team.mount"]


@pytest.mark.parametrize(
    ("when_away", "options"),
    [("give_up", "softerr,timeo=100,retrans=2"), ("wait", "hard")],
)
def test_patience(when_away, options):
    found = files(plan([{**TEAM, "on_timeout": when_away}], HOSTS, Me("pair", 0, "a")), Times())
    assert f"rw,{options},retry=0," in found[f"{UNITS}/mnt-team.mount"]
    assert "TimeoutIdleSec=600" in found[f"{UNITS}/mnt-team.automount"]


@pytest.mark.parametrize(
    ("share", "key"),
    [
        ({"name": "a b"}, "name"),
        ({"path": "/"}, "path"),
        ({"path": "mnt/x"}, "path"),
        ({"path": "/mnt/../etc"}, "path"),
        ({"path": "/mnt/x y"}, "path"),
        ({"export_path": "/srv/x/"}, "export_path"),
        ({"permissions": "777x"}, "permissions"),
        ({"worker": -1}, "worker"),
        ({"server": "10.0.0.1"}, "slice"),
        ({"slice": None}, "slice"),
        ({"slice": None, "server": "10.0.0.1(rw)"}, "server"),
    ],
)
def test_wrong_shares_are_named_by_their_key(share, key):
    assert [found[0] for found in problems_of({**TEAM, **share})] == [key]
    assert problems_of({**TEAM, "permissions": "1777"}) == []


def test_the_inventory_says_where_everybody_is():
    known = {
        "pair-w1": {"tpu_vm_name": "pair", "tpu_vm_worker_index": 1, "tpu_vm_internal_ip": None},
        "laptop": {},
        "pair-w0": {
            "tpu_vm_name": "pair",
            "tpu_vm_worker_index": 0,
            "tpu_vm_zone": "a",
            "tpu_vm_internal_ip": "10.0.0.10",
        },
    }
    assert nfs_hosts(known) == [host("pair", 0, "10.0.0.10"), host("pair", 1, "", "")]
