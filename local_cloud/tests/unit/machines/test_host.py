"""How podman is called follows from what kind of computer this is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpu_local_cloud.machines.host import (
    EngineSettings,
    HostFacts,
    engine_settings,
    explain_missing,
    install_command,
    missing_programs,
    refusal,
)

ALL = (1 << 41) - 1
ORDINARY = HostFacts(
    system="Linux",
    uid=0,
    distribution="debian",
    like=(),
    codename="bookworm",
    cgroup_type="cgroup2",
    systemd=True,
    capabilities=ALL,
    nofile=1048576,
    nproc=-1,
)
HYBRID = replace(
    ORDINARY,
    cgroup_type="tmpfs",
    systemd=False,
    capabilities=ALL & ~(1 << 24),
    nofile=20000,
    nproc=96365,
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ORDINARY, EngineSettings(False, None, (), "systemd")),
        (replace(ORDINARY, systemd=False), EngineSettings(False, None, (), "cgroupfs")),
        (
            HYBRID,
            EngineSettings(True, "runc", ("nofile=20000:20000", "nproc=32768:32768"), "cgroupfs"),
        ),
        (
            replace(HYBRID, cgroup_type="cgroup2", nofile=4096, nproc=-1),
            EngineSettings(False, "runc", ("nofile=4096:4096", "nproc=32768:32768"), "cgroupfs"),
        ),
    ],
    ids=["systemd and cgroup2", "no systemd", "hybrid and limited", "limited"],
)
def test_engine_settings(facts: HostFacts, expected: EngineSettings) -> None:
    assert engine_settings(facts) == expected


@pytest.mark.parametrize(
    ("change", "family"),
    [
        ({"distribution": "debian"}, "debian"),
        ({"distribution": "ubuntu", "like": ("debian",)}, "debian"),
        ({"distribution": "linuxmint", "like": ("ubuntu", "debian")}, "debian"),
        ({"distribution": "fedora"}, "fedora"),
        ({"distribution": "rocky", "like": ("rhel", "centos", "fedora")}, "fedora"),
        ({"distribution": "arch"}, "arch"),
        ({"distribution": "nixos"}, None),
    ],
)
def test_family_of_the_distribution(change: dict[str, object], family: str | None) -> None:
    assert replace(ORDINARY, **change).family == family  # type: ignore[arg-type]


def test_what_is_missing_is_named_by_package() -> None:
    have = {"ip", "ssh", "nsenter"}
    missing = missing_programs(HYBRID, lambda name: name if name in have else None)
    assert missing == ["conmon", "mmdebstrap", "nft", "podman", "runc"]
    assert install_command(HYBRID, missing) == [
        "apt-get", "install", "--yes", "--no-install-recommends",
        "conmon", "mmdebstrap", "nftables", "podman", "runc",
    ]  # fmt: skip
    assert "apt-get install" in explain_missing(HYBRID, missing)


def test_runc_and_mmdebstrap_are_wanted_only_where_they_are_used() -> None:
    fedora = replace(ORDINARY, distribution="fedora")
    missing = missing_programs(fedora, lambda name: None)
    assert "runc" not in missing
    assert "mmdebstrap" not in missing


def test_an_unknown_distribution_gets_the_package_names_of_all() -> None:
    unknown = replace(ORDINARY, distribution="nixos")
    assert install_command(unknown, ["nft"]) is None
    text = explain_missing(unknown, ["nft"])
    assert all(f"On {family}" in text for family in ("debian", "fedora", "arch"))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"uid": 1000}, "need root"), ({"system": "Darwin"}, "runs Darwin"), ({}, None)],
)
def test_refusal_says_what_is_needed(change: dict[str, object], words: str | None) -> None:
    text = refusal(replace(ORDINARY, **change))  # type: ignore[arg-type]
    assert text is None if words is None else words in (text or "")
