"""Parts of answers."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.tpu_api.partial import keep, parse

ANSWER: dict[str, Any] = {
    "nodes": [
        {"name": "a", "state": "READY", "acceleratorConfig": {"type": "V4", "topology": "2x2x1"}},
        {"name": "b", "state": "CREATING"},
    ],
    "nextPageToken": "t",
}


BOTH = [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ("nextPageToken", {"nextPageToken": "t"}),
        ("nodes/name", {"nodes": BOTH}),
        ("nodes(name),nextPageToken", {"nodes": BOTH, "nextPageToken": "t"}),
        ("nodes(name, state)", {"nodes": [{**BOTH[0], "state": "READY"}, ANSWER["nodes"][1]]}),
        ("nodes/acceleratorConfig(type)", {"nodes": [{"acceleratorConfig": {"type": "V4"}}, {}]}),
        ("nodes(acceleratorConfig/type)", {"nodes": [{"acceleratorConfig": {"type": "V4"}}, {}]}),
        ("*", ANSWER),
        ("*/name", {"nodes": BOTH, "nextPageToken": "t"}),
        ("unheard/of", {}),
    ],
)
def test_what_is_kept(fields: str, part: Any) -> None:
    assert keep(ANSWER, parse(fields)) == part


@pytest.mark.parametrize("fields", ["nodes(", "nodes()", ",", "a,,b", "a)", "a/", "/a", "a b;c"])
def test_what_cannot_be_read(fields: str) -> None:
    with pytest.raises(ApiError, match="Invalid field selection") as caught:
        parse(fields)
    assert caught.value.http == 400
