"""Each file system that the fleet mounts takes no setuid programs and no devices of others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import mounts
from ansible_collections.tpu.fleet.plugins.module_utils._host.mounts import (
    guard,
    unguarded,
    unit_name,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed
from ansible_collections.tpu.fleet.plugins.module_utils._roles.bucket_mount import units
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk import plan as disks
from ansible_collections.tpu.fleet.plugins.module_utils._roles.nfs_share import plan as shares

PLUGINS = Path(mounts.__file__).parents[2]
# What an administrator may write beside them, also to get rid of them.
OPTIONS: list[tuple[str, ...]] = [
    (),
    ("noatime",),
    ("defaults",),
    ("nosuid",),
    ("suid", "dev"),
    ("nosuid", "suid", "nodev", "dev"),
]


def effective(options: str) -> set[str]:
    """Return which of the options holds, as mount takes them: of each pair the last."""
    words = options.split(",")
    assert not any(word.startswith(("nosuid=", "nodev=")) for word in words)
    held = set()
    for pair in (("suid", "nosuid"), ("dev", "nodev")):
        given = [word for word in words if word in pair]
        held.add(given[-1] if given else pair[0])
    return held


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("adopt", [False, True])
def test_data_disks(options: tuple[str, ...], read_only: bool, adopt: bool) -> None:
    wanted = disks.Wanted("d", "/mnt/d", read_only=read_only, adopt=adopt, options=options)
    device = disks.Device("/dev/sdb", "8:16", 1 << 34, read_only=read_only, type="ext4", uuid="u")
    line = disks.fstab_line(wanted, device, "ext4", "u")
    for found in (line.split()[3], ",".join(disks.mount_options(wanted, device, "ext4"))):
        assert effective(found) == {"nosuid", "nodev"}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("value", [True, False, ""])
def test_buckets(options: tuple[str, ...], value: Any) -> None:
    entry = {"bucket": "lab", "path": "/mnt/lab", "options": dict.fromkeys(options, value)}
    assert effective(units.mount_options(entry, 0, 0)) == {"nosuid", "nodev"}


def test_shares_and_what_is_exported_at_another_path() -> None:
    share = {"name": "s", "path": "/share", "export_path": "/srv/s", "slice": "a"}
    hosts = [{"slice": name, "worker": 0, "zone": "z", "address": f"10.0.0.{i}"}
             for i, name in enumerate("ab")]  # fmt: skip
    seen = 0
    for name in "ab":
        wanted = shares.plan([share], hosts, shares.Me(name, 0, "z"))
        for path, text in shares.files(wanted, shares.Times()).items():
            if path.endswith(".mount"):
                seen += 1
                (options,) = re.findall("^Options=(.*)$", text, re.MULTILINE)
                assert effective(options) == {"nosuid", "nodev"}
    assert seen == 2


def test_nothing_else_mounts() -> None:
    """A further place that mounts something belongs into this file first."""
    makes = re.compile(
        r'"mount", "-|(^|\\n)\[Mount\]|ansible\.posix\.mount|^\s*mount -', re.MULTILINE
    )
    files = (
        path
        for folder in (PLUGINS, PLUGINS.parent / "roles", PLUGINS.parent / "playbooks")
        for path in folder.rglob("*.*")
        if path.suffix in (".py", ".yml", ".j2", ".sh")
    )
    texts = {path.relative_to(PLUGINS.parent).as_posix(): path.read_text() for path in files}
    found = {path: text for path, text in texts.items() if makes.search(text)}
    assert set(found) == {
        "plugins/module_utils/_apply_agent/first.py",
        "plugins/module_utils/_host/mounts.py",
        "plugins/module_utils/_roles/bucket_mount/units.py",
        "plugins/module_utils/_roles/data_disk/act.py",
        "plugins/module_utils/_roles/nfs_share/plan.py",
    }
    first = found["plugins/module_utils/_apply_agent/first.py"]
    (options,) = re.findall(r'"mount", "-t", "nfs", "-o", "([^"]*)"', first)
    assert effective(options) == {"nosuid", "nodev"}


INFO = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
50 22 8:16 / /mnt/data rw,noatime - ext4 /dev/sdb rw
51 22 8:32 / /mnt/safe rw,nosuid,nodev - ext4 /dev/sdc rw
52 22 8:48 / /mnt/half ro,nosuid - ext4 /dev/sdd ro
53 22 0:40 / /mnt/trap rw,relatime - autofs systemd-1 rw
54 22 0:41 / /mnt/twice rw - ext4 /dev/sde rw
55 54 0:42 / /mnt/twice rw,nosuid,nodev - nfs4 a:/b rw
56 22 0:43 / /mnt/a\\040b rw - ext4 /dev/sdf rw
broken
"""


def test_what_is_mounted_already_keeps_its_other_flags() -> None:
    targets = ("data/", "safe", "half", "trap", "twice", "a b", "gone")
    assert unguarded(INFO, [f"/mnt/{name}" for name in targets]) == {
        "/mnt/data": "rw,noatime,nosuid,nodev",
        "/mnt/half": "ro,nosuid,nodev",
        "/mnt/a b": "rw,nosuid,nodev",
    }


def test_a_mount_is_changed_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_more: INFO)
    calls: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        calls.append(argv)
        return 0, "", ""

    told = ["mount /mnt/half again with nosuid,nodev"]
    assert guard(run, ["/mnt/half"], check=True) == told
    assert calls == []
    assert guard(run, ["/mnt/half"], check=False) == told
    assert calls == [["mount", "-o", "remount,bind,ro,nosuid,nodev", "/mnt/half"]]
    assert guard(run, ["/mnt/safe"], check=False) == []
    with pytest.raises(Failed, match="denied"):
        guard(lambda _argv: (32, "", "denied"), ["/mnt/half"], check=False)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/mnt/my-team/a_b", r"mnt-my\x2dteam-a_b"),
        ("/mnt/out-put/", "mnt-out\\x2dput"),
        ("/mnt//a b", "mnt-a\\x20b"),
        ("/.cache", "\\x2ecache"),
        ("/mnt/ü", "mnt-\\xc3\\xbc"),
    ],
)
def test_names_are_those_of_systemd(path: str, name: str) -> None:
    assert unit_name(path) == name


@pytest.mark.parametrize("point", ["/mnt/ü", "/mnt/a b", "/"])
def test_points_are_read_as_the_kernel_writes_them(point: str) -> None:
    written = point.replace(" ", r"\040")
    assert mounts.point_of(f"36 35 8:1 / {written} rw - ext4 /dev/sda rw") == point
