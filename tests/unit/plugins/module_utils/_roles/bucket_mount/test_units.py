"""Units of buckets."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.bucket_mount.units import (
    apt_files,
    mount_options,
    mount_units,
)


def test_options_are_those_of_the_mount_helper() -> None:
    assert mount_options({}, 0, 0) == (
        "rw,_netdev,allow_other,uid=0,gid=0,file_mode=664,dir_mode=775,implicit_dirs,nosuid,nodev"
    )
    entry = {
        "read_only": True,
        "implicit_dirs": False,
        "only_dir": "/a/b/",
        "metadata_ttl": 0,
        "options": {"--rename-dir-limit": 5, "debug": True},
    }
    assert mount_options(entry, 1, 2).endswith(
        "only_dir=a/b,metadata_cache_ttl_secs=0,rename_dir_limit=5,debug=true,nosuid,nodev"
    )


@pytest.mark.parametrize("automount", [True, False])
def test_what_is_enabled_waits_for_nothing_and_nothing_for_it(automount: bool) -> None:
    entry = {"bucket": "b", "path": "/mnt/50%"}
    units = mount_units(entry, 0, 0, timeout=7, automount=automount)
    assert [unit.name.rpartition(".")[2] for unit in units] == (
        ["mount", "automount"] if automount else ["mount"]
    )
    for unit in units:
        assert "DefaultDependencies=no" in unit.text
        assert "Where=/mnt/50%%\n" in unit.text
    assert ["[Install]" in unit.text for unit in units] == ([False, True] if automount else [True])
    assert "TimeoutSec=7\n" in units[0].text


def test_apt_believes_the_key_for_this_repository_alone() -> None:
    files = apt_files("https://mirror.example/apt", "KEY\n", "3.5.0", "bookworm")
    source = next(text for path, text in files.items() if path.endswith(".sources"))
    assert "Suites: gcsfuse-bookworm\n" in source
    assert "Signed-By: /etc/apt/keyrings/tpu-fleet-gcsfuse.asc\n" in source
    assert set(apt_files("", "", "", "bookworm").values()) == {""}
