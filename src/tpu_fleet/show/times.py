"""Format durations for people."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long

__all__ = ["long"]
