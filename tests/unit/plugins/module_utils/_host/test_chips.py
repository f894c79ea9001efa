"""Which devices are TPU chips."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.chips import (
    PciDevice,
    chip_count,
    generation_of,
    pci_devices,
    wants_huge_pages,
)

NETWORK_CARD = PciDevice("0x1ae0", "0x0042", "0x020000")
DISK = PciDevice("0x1ae0", "0x001f", "0x010802")
V4 = PciDevice("0x1ae0", "0x005e", "0x088000")
V6E = PciDevice("0x1ae0", "0x006f", "0x120000")
TO_COME = PciDevice("0x1ae0", "0x00ff", "0x120000")
OTHER = PciDevice("0x8086", "0x1237", "0x060000")


@pytest.mark.parametrize(
    ("devices", "count", "generation", "huge"),
    [
        ([], 0, None, False),
        ([OTHER, NETWORK_CARD, DISK], 0, None, False),
        ([OTHER, V4, V4, NETWORK_CARD], 2, "v4", False),
        ([V6E], 1, "v6e", True),
        ([TO_COME], 1, "unknown", True),
    ],
)
def test_chips_are_told_from_other_devices_of_google(
    devices: list[PciDevice], count: int, generation: str | None, huge: bool
) -> None:
    assert chip_count(devices) == count
    assert generation_of(devices) == generation
    assert wants_huge_pages(generation) is huge


def test_the_bus_is_read(tmp_path: Path) -> None:
    for name, value in (("vendor", "0x1AE0\n"), ("device", "0x005e\n"), ("class", "0x088000\n")):
        folder = tmp_path / "0000:00:04.0"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(value)
    (tmp_path / "0000:00:05.0").mkdir()
    assert pci_devices(str(tmp_path)) == [V4]
    assert pci_devices(str(tmp_path / "none")) == []
