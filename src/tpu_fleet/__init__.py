"""tpu.fleet: the command line beside the collection; for programs, `submit` and `submitted`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queue.submit import NoAnswer, SubmitError, submit, submitted

__all__ = ["NoAnswer", "SubmitError", "submit", "submitted"]


def __getattr__(name: str) -> Any:
    """Import what programs use when they use it: it brings Ansible."""
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.queue.submit"), name)
