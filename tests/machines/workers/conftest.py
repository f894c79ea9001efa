"""Clouds with machines."""

from __future__ import annotations

from container_cloud import container_cloud, own_cloud

__all__ = ["container_cloud", "own_cloud"]
