"""The agent lies in a role, where no import path leads."""

from __future__ import annotations

import submitters  # noqa: F401 - which finds it
