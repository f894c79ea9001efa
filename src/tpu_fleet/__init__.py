"""tpu.fleet: the command line beside the Ansible collection, and `submit` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queue.submit import submit

__all__ = ["submit"]


def __getattr__(name: str) -> Any:
    """Import `submit` when it is used: it brings Ansible."""
    if name != "submit":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from .queue.submit import submit

    return submit
