"""Send one message by apprise: `python -m tpu_fleet.notify.by_apprise`, with JSON in its input.

The exit code is the only result, because apprise's own messages may contain a secret.
"""

from __future__ import annotations

import importlib.util
import json
import sys

NOT_SENT, NO_ADDRESS = 3, 4


def is_there() -> bool:
    """Return whether the extra is installed."""
    return importlib.util.find_spec("apprise") is not None


def main() -> int:
    """Send it."""
    import apprise

    asked = json.load(sys.stdin)
    # A redirection must not get the secret part of the address.
    asset = apprise.AppriseAsset(http_redirects=False)
    service = apprise.Apprise.instantiate(asked["address"], asset=asset)
    if service is None:
        return NO_ADDRESS
    # Whatever options the address contains.
    service.redirects = False
    services = apprise.Apprise(asset=asset)
    services.add(service)
    sent = services.notify(
        asked["body"],
        title=asked["title"],
        notify_type=asked["kind"],
        body_format=apprise.NotifyFormat.TEXT,
    )
    return 0 if sent else NOT_SENT


if __name__ == "__main__":
    sys.exit(main())
