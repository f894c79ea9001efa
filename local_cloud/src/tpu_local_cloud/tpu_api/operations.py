"""Methods for operations: each function answers one method."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared.records import OperationRecord
from .call import Call
from .discovery import is_true
from .lists import zoned_page


def list_operations(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the operations of a zone, or of all."""
    if is_true(call.argument("returnPartialSuccess")):
        raise errors.unimplemented("return_partial_success")
    cloud.advance()
    ours = (o for o in cloud.operations.values() if o.api == "tpu")
    found = [o for o in ours if call.zone in ("-", o.zone)]
    found.sort(key=lambda o: (o.zone, o.name))
    return zoned_page(cloud, call, found, "operations", lambda o: o.render(cloud.project))


def get_operation(cloud: Cloud, call: Call) -> OperationRecord:
    """Return one operation."""
    return cloud.operation(call.zone, call.id)


def cancel_operation(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Cancel an operation."""
    cloud.cancel(call.zone, call.id)
    return {}


def delete_operation(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete an operation."""
    cloud.forget_operation(call.zone, call.id)
    return {}
