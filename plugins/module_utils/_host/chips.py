"""The TPU chips on the PCI bus, found without a driver and /dev. Private to tpu.fleet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .._schema.accelerators import GENERATIONS

GOOGLE = "0x1ae0"
# Google's network cards and disks have the same vendor; the PCI base class marks chips, also
# those of future generations.
NOT_A_CHIP = ("0x01", "0x02")

_BY_DEVICE = {row.pci: name for name, row in GENERATIONS.items() if row.pci}


@dataclass(frozen=True)
class PciDevice:
    """What sysfs contains about one device."""

    vendor: str
    device: str
    device_class: str


def is_chip(device: PciDevice) -> bool:
    """Return whether a device is a TPU chip."""
    return device.vendor == GOOGLE and not device.device_class.startswith(NOT_A_CHIP)


def generation_of(devices: list[PciDevice]) -> str | None:
    """Return the generation; 'unknown' for a chip that is not listed here, None without chips."""
    chips = [device for device in devices if is_chip(device)]
    return _BY_DEVICE.get(chips[0].device, "unknown") if chips else None


def wants_huge_pages(generation: str | None) -> bool:
    """Return whether this generation benefits from transparent huge pages."""
    known = GENERATIONS.get(generation or "")
    return generation is not None and (known is None or known.huge_pages)


def pci_devices(root: str = "/sys/bus/pci/devices") -> list[PciDevice]:
    """Return the devices of the bus."""
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
    """Return the number of chips."""
    return sum(map(is_chip, devices))
