"""Send one message by apprise: `python -m tpu_fleet.notify.by_apprise`, with JSON in its input.

The exit code is the only result, because apprise's own messages may contain a secret.
"""

from __future__ import annotations

import json
import smtplib
import sys
from typing import Any

import apprise
import requests

NOT_SENT, NO_ADDRESS, REFUSED = 3, 4, 5
REFUSALS = (400, 413, 415, 422)
"""The statuses with which a web server refuses this message, and may take another one."""


class Refusals:
    """Notes whether a receiver refused the message itself, which apprise does not return."""

    def __init__(self) -> None:
        self.seen = False

    def note(self) -> None:
        """Look at the answers of all receivers from now on."""
        send, sendmail = requests.Session.send, smtplib.SMTP.sendmail

        def sent(*given: Any, **more: Any) -> requests.Response:
            answer = send(*given, **more)
            self.seen = self.seen or answer.status_code in REFUSALS
            return answer

        def mailed(*given: Any, **more: Any) -> Any:
            try:
                return sendmail(*given, **more)
            except smtplib.SMTPDataError:
                self.seen = True
                raise

        # This process sends one message, and ends.
        requests.Session.send = sent  # type: ignore[method-assign]
        smtplib.SMTP.sendmail = mailed  # type: ignore[method-assign]


def main() -> int:
    """Send it."""
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
    refusals = Refusals()
    refusals.note()
    sent = services.notify(
        asked["body"],
        title=asked["title"],
        notify_type=asked["kind"],
        body_format=apprise.NotifyFormat.TEXT,
    )
    if sent:
        return 0
    return REFUSED if refusals.seen else NOT_SENT


if __name__ == "__main__":
    sys.exit(main())
