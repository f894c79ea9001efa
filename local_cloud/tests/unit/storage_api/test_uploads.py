"""Multipart bodies, wherever the network cuts them."""

from __future__ import annotations

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.storage import conditions
from tpu_local_cloud.storage_api import uploads
from tpu_local_cloud.storage_api.access import OWNER
from tpu_local_cloud.storage_api.call import Call, Request

CONTENTS = [
    b"",
    b"x",
    b"\r\n",
    b"\r\n--",
    b"a\r\n--boundar",
    b"--boundary",
    b"\n--bound\n\r",
    b"\0" * 99,
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("line", [b"\r\n", b"\n"])
@pytest.mark.parametrize("content", CONTENTS)
def test_a_content_is_what_stands_between(size: int, line: bytes, content: bytes) -> None:
    lines = (b"--boundary", b"Content-Type: application/json", b"", b'{"name": "a"}', b"--boundary",
             b"Content-Type: text/x", b"", content, b"--boundary--")  # fmt: skip
    body = line.join(lines)
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    cloud = a_cloud()
    cloud.buckets.make({"name": "lab"})
    headers = {"content-type": "multipart/related; boundary=boundary"}
    request = Request("POST", "/", {"uploadType": "multipart"}, headers, parts, OWNER)
    made = uploads.insert(Call(cloud, request, {"bucket": "lab"}))
    assert isinstance(made, dict)
    assert (made["name"], made["contentType"]) == ("a", "text/x")
    _document, file = cloud.buckets.open("lab", "a", "", conditions.NONE)
    with file:
        assert file.read() == content
    cloud.close()


def test_the_boundary_may_stand_between_quotes() -> None:
    for quote in ("", '"', "'"):
        kind = f"multipart/related; boundary={quote}==1=={quote}"
        assert uploads._boundary(kind) == b"==1=="
    with pytest.raises(ComputeError, match="Missing multipart boundary"):
        uploads._boundary("multipart/related")
