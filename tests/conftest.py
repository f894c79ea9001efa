"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start:
# the tests that press it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the computer does, not whether it is right.
settings.register_profile("tpu-fleet", settings(deadline=None))
settings.load_profile("tpu-fleet")
