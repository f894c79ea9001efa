"""Print what the TPU runtime reports on the chips, as JSON. Runs in tpu-info's environment."""

import json

from tpu_info import device, metrics


def main():
    """Ask once; the runtime answers only while a program uses the chips."""
    chip, count = device.get_local_chips()
    devices = []
    try:
        found = metrics.get_chip_usage(chip) if chip else []
        devices = [usage._asdict() for usage in found]
    except Exception:
        # grpc's errors are of many kinds; here they mean that no program uses the chips.
        devices = []
    print(json.dumps({"chips": count, "type": chip.value.name if chip else "", "devices": devices}))


if __name__ == "__main__":
    main()
