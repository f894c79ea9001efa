"""What holds for every test."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start:
# the tests that press it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)
