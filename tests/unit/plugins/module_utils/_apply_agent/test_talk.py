"""What a machine sends to the controller while it applies the roles."""

from __future__ import annotations

import io
import json

from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.boot import Alone
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.talk import Line


def test_an_event_may_have_any_name_for_what_it_says() -> None:
    written = io.BytesIO()
    # The name "what" is the point.
    # pylint: disable=kwarg-superseded-by-positional-arg
    event = {"event": "doing", "what": "compiles the packages", "data": 1, "more": {"self": 2}}
    Line(io.BytesIO(), written).say("event", **event)
    assert json.loads(written.getvalue()) == {"say": "event", **event}
    Alone(None, {}).say("event", **event)
