"""The TPU chips on the PCI bus; no driver and no /dev name is needed. Private to tpu.fleet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GOOGLE = "0x1ae0"
# Google's network card and disks carry the same vendor; their PCI base class tells them apart, also
# from chips of generations to come.
NOT_A_CHIP = ("0x01", "0x02")

GENERATIONS = {
    "0x0027": "v3",
    "0x005e": "v4",
    "0x0062": "v5p",
    "0x0063": "v5e",
    "0x006f": "v6e",
    "0x0076": "v7x",
}
# Start-up on v5e and later takes twice as long without transparent huge pages.
BEFORE_HUGE_PAGES = frozenset({"v2", "v3", "v4"})


@dataclass(frozen=True)
class PciDevice:
    """What sysfs tells of one device."""

    vendor: str
    device: str
    device_class: str


def is_chip(device: PciDevice) -> bool:
    """Tell a TPU chip from Google's other devices."""
    return device.vendor == GOOGLE and not device.device_class.startswith(NOT_A_CHIP)


def generation_of(devices: list[PciDevice]) -> str | None:
    """Name the generation; a chip that is not known here is 'unknown', no chip is None."""
    chips = [device for device in devices if is_chip(device)]
    return GENERATIONS.get(chips[0].device, "unknown") if chips else None


def wants_huge_pages(generation: str | None) -> bool:
    """Say whether this generation gains from transparent huge pages."""
    return generation is not None and generation not in BEFORE_HUGE_PAGES


def pci_devices(root: str = "/sys/bus/pci/devices") -> list[PciDevice]:
    """Read the bus."""
    found = []
    for folder in sorted(Path(root).glob("*")):
        try:
            values = [
                (folder / name).read_text(encoding="ascii").strip().lower()
                for name in ("vendor", "device", "class")
            ]
        except OSError:
            continue
        found.append(PciDevice(*values))
    return found


def chip_count(devices: list[PciDevice]) -> int:
    """Count the chips."""
    return sum(map(is_chip, devices))
