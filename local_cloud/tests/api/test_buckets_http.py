"""Cloud Storage over plain HTTP: what clients in other languages send, and refusals as Google's."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests
from emulator import Emulator

Ask = Callable[..., requests.Response]
UPLOAD, OBJECTS = "upload/storage/v1/b/lab/o", "storage/v1/b/lab/o"
QUANTUM = 256 * 1024


@pytest.fixture
def ask(cloud: Emulator) -> Ask:
    session = requests.Session()

    def ask(method: str, path: str, data: bytes = b"", **headers: str) -> requests.Response:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return session.request(method, cloud.url + path, data=data, headers=named, timeout=60)

    session.post(f"{cloud.url}storage/v1/b?project=p", json={"name": "lab"}, timeout=30)
    return ask


def put(ask: Ask, name: str, content: bytes = b"x", query: str = "") -> requests.Response:
    return ask("POST", f"{UPLOAD}?uploadType=media&name={quote(name, safe='')}{query}", content)


def multipart(about: dict[str, Any], content: bytes, line: bytes = b"\r\n") -> bytes:
    parts = (
        *(b"--X", b"Content-Type: application/json", b"", json.dumps(about).encode()),
        *(b"--X", b"Content-Type: text/x-own", b"", content, b"--X--"),
    )
    return line.join(parts)


@pytest.mark.parametrize("line", [b"\r\n", b"\n"])
@pytest.mark.parametrize("content", [b"", b"hello", b"\0two\r\nlines\r\n--Y\n", b"x" * 3_000_000])
def test_multipart(ask: Ask, line: bytes, content: bytes) -> None:
    body = multipart({"name": "m"}, content, line)
    kind = "multipart/related; boundary='X'"
    made = ask("POST", f"{UPLOAD}?uploadType=multipart", body, Content_Type=kind).json()
    assert (made["size"], made["contentType"]) == (str(len(content)), "text/x-own")
    assert ask("GET", f"{OBJECTS}/m?alt=media").content == content


@pytest.mark.parametrize("body", [b"", b"--X\r\n\r\n{}", multipart({}, b"x")[:-5], b"--X\r\n\r\n["])
def test_half_a_multipart_is_no_object(ask: Ask, body: bytes) -> None:
    kind = "multipart/related; boundary=X"
    answer = ask("POST", f"{UPLOAD}?uploadType=multipart&name=m", body, Content_Type=kind)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
    assert ask("GET", f"{OBJECTS}/m").status_code == 404


def test_resumable(ask: Ask, cloud: Emulator) -> None:
    content = bytes(range(256)) * 2048
    begun = ask("POST", f"{UPLOAD}?uploadType=resumable&name=a/b", b"{}")
    place = begun.headers["Location"]
    assert place.startswith(f"{cloud.url}{UPLOAD}?uploadType=resumable")
    path = place.removeprefix(cloud.url)
    assert (ask("PUT", path, Content_Range="bytes */*").status_code) == 308
    first = ask("PUT", path, content[:QUANTUM], Content_Range=f"bytes 0-{QUANTUM - 1}/*")
    assert (first.status_code, first.headers["Range"]) == (308, f"bytes=0-{QUANTUM - 1}")
    cloud.control("faults", {"kind": "drop", "match": {"object": "a/b"}, "when": "after",
                             "count": 1})  # fmt: skip
    last = f"bytes {QUANTUM}-{len(content) - 1}/{len(content)}"
    with pytest.raises(requests.ConnectionError):
        ask("PUT", path, content[QUANTUM:], Content_Range=last)
    # The answer was lost, the write was not.
    again = ask("PUT", path, Content_Range=f"bytes */{len(content)}")
    assert (again.status_code, again.json()["size"]) == (200, str(len(content)))
    assert ask("GET", f"{OBJECTS}/a%2Fb?alt=media").content == content
    other = ask("POST", f"{UPLOAD}?uploadType=resumable&name=c").headers["Location"]
    assert ask("DELETE", other.removeprefix(cloud.url)).status_code == 499
    assert ask("PUT", other.removeprefix(cloud.url), b"x").status_code == 404


def test_ranges(ask: Ask) -> None:
    put(ask, "a", b"0123456789")
    path = f"{OBJECTS}/a?alt=media"
    for header, code, content, shown in (
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=0-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=1-2,4-5", 200, b"0123456789", None),
    ):
        answer = ask("GET", path, Range=header)
        assert (answer.status_code, answer.content) == (code, content)
        assert answer.headers.get("Content-Range") == shown
    refused = ask("GET", path, Range="bytes=10-")
    assert (refused.status_code, refused.headers["Content-Range"]) == (416, "bytes */10")
    head = ask("HEAD", f"download/{path}")
    assert (head.headers["Content-Length"], head.content) == ("10", b"")


def test_headers_of_a_download(ask: Ask) -> None:
    made = put(ask, "a", b"hello").json()
    headers = ask("GET", f"{OBJECTS}/a?alt=media").headers
    assert headers["x-goog-generation"] == made["generation"]
    assert headers["x-goog-hash"] == "crc32c=mnG7TA==,md5=XUFAKrxLKna5cZ2REBfFkg=="
    assert headers["x-goog-stored-content-length"] == "5"
    same = f"&ifGenerationNotMatch={made['generation']}"
    assert ask("GET", f"{OBJECTS}/a?alt=media{same}").status_code == 304
    assert ask("GET", f"{OBJECTS}/a?{same}").status_code == 304
    wrong = f"&ifGenerationMatch={int(made['generation']) - 1}"
    assert ask("GET", f"{OBJECTS}/a?alt=media{wrong}").status_code == 412


def test_a_rewrite_in_several_calls(ask: Ask) -> None:
    put(ask, "a", b"x" * (5 << 19))
    path = f"{OBJECTS}/a/rewriteTo/b/lab/o/b?maxBytesRewrittenPerCall={1 << 20}"
    answer = ask("POST", path).json()
    done = []
    while not answer["done"]:
        assert ask("GET", f"{OBJECTS}/b").status_code == 404
        done.append(int(answer["totalBytesRewritten"]))
        answer = ask("POST", f"{path}&rewriteToken={answer['rewriteToken']}").json()
    assert done == [1 << 20, 2 << 20]
    assert answer["resource"]["size"] == str(5 << 19)
    put(ask, "a", b"other")
    token = ask("POST", path.replace("/a/", "/b/").replace("o/b?", "o/c?")).json()["rewriteToken"]
    refused = ask("POST", f"{path}&rewriteToken={token}")
    assert refused.status_code == 400


# Refusals ---------------------------------------------------------------------------------------


def test_refusals_of_the_json_api(ask: Ask) -> None:
    put(ask, "a")
    refused = put(ask, "a", query="&ifGenerationMatch=0")
    text = "At least one of the pre-conditions you specified did not hold."
    one = {"message": text, "domain": "global", "reason": "conditionNotMet"}
    assert refused.status_code == 412
    assert refused.json() == {"error": {"code": 412, "message": text, "errors": [one]}}
    missing = ask("GET", f"{OBJECTS}/none")
    assert missing.json()["error"]["errors"][0]["reason"] == "notFound"
    media = ask("GET", f"{OBJECTS}/none?alt=media")
    assert (media.text, media.headers["Content-Type"]) == (
        "No such object: lab/none", "text/html; charset=UTF-8"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "code", "text"),
    [
        ("POST", f"{UPLOAD}?uploadType=media", 400, "Required"),
        ("POST", f"{UPLOAD}?uploadType=none&name=a", 400, 'Value "none" for uploadType'),
        ("GET", f"{OBJECTS}?maxResults=x", 400, "maxResults: 'x'"),
        ("GET", f"{OBJECTS}?matchGlob=[", 400, "bracket"),
        ("GET", f"{OBJECTS}?fields=items(", 400, "Invalid field selection"),
        ("GET", f"{OBJECTS}/a?generation=x", 400, "generation: 'x'"),
        ("POST", f"{OBJECTS}/a/restore", 400, "Required parameter: generation"),
        ("GET", "storage/v1/b/none/o", 404, "The specified bucket does not exist."),
        ("GET", "storage/v1/b/lab/notificationConfigs", 501, "has no storage.notifications.list"),
        ("GET", "storage/v1/projects/p/hmacKeys", 501, "storage.projects.hmacKeys.list"),
        ("POST", f"{OBJECTS}/bulkRestore", 501, "storage.objects.bulkRestore"),
    ],
)
def test_what_is_refused(ask: Ask, method: str, path: str, code: int, text: str) -> None:
    answer = ask(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (code, code)
    assert text in answer.json()["error"]["message"]


def test_fields_may_come_more_than_once(ask: Ask) -> None:
    put(ask, "a/b")
    shown = ask("GET", f"{OBJECTS}?fields=items/name,items/size").json()
    assert shown == {"items": [{"name": "a/b", "size": "1"}]}
    shown = ask("GET", f"{OBJECTS}?fields=prefixes&fields=items(name)&delimiter=/").json()
    assert shown == {"prefixes": ["a/"]}


# The XML API ------------------------------------------------------------------------------------


def test_objects_by_xml(ask: Ask) -> None:
    made = ask("PUT", "lab/x/1", b"one", Content_Type="text/x", x_goog_meta_k="v")
    assert made.headers["ETag"] == '"f97c5d29941bfb1b2fdab0874906ab82"'
    got = ask("GET", "lab/x/1", Range="bytes=1-")
    assert (got.status_code, got.content) == (206, b"ne")
    assert (got.headers["x-goog-meta-k"], got.headers["Content-Type"]) == ("v", "text/x")
    assert ask("HEAD", "lab/x/1").headers["Content-Length"] == "3"
    refused = ask("PUT", "lab/x/1", b"two", x_goog_if_generation_match="0")
    assert (refused.status_code, "<Code>PreconditionFailed</Code>" in refused.text) == (412, True)
    copied = ask("PUT", "lab/y", x_goog_copy_source="/lab/x%2F1")
    assert copied.headers["x-goog-generation"] > made.headers["x-goog-generation"]
    listed = ask("GET", "lab?list-type=2&delimiter=/").text
    assert "<Key>y</Key>" in listed
    assert "<CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes>" in listed
    assert ask("DELETE", "lab/y").status_code == 204
    missing = ask("GET", "lab/y")
    assert (missing.status_code, "<Code>NoSuchKey</Code>" in missing.text) == (404, True)
    unknown = ask("GET", "lab/x/1?acl")
    assert (unknown.status_code, "<Code>NotImplemented</Code>" in unknown.text) == (501, True)


def test_pages_by_xml(ask: Ask) -> None:
    for number in range(5):
        ask("PUT", f"lab/{number}", b"x")
    first = ask("GET", "lab?list-type=2&max-keys=3").text
    token = first.partition("<NextContinuationToken>")[2].partition("<")[0]
    rest = ask("GET", f"lab?list-type=2&max-keys=3&continuation-token={quote(token)}").text
    assert first.count("<Key>") == 3
    assert (rest.count("<Key>"), "<IsTruncated>false" in rest) == (2, True)
    old = ask("GET", "lab?marker=3").text
    assert (old.count("<Key>"), "<Key>4</Key>" in old) == (1, True)


def test_the_buckets_own_host(ask: Ask) -> None:
    put(ask, "a/b", b"one")
    # The port of all APIs answers to this computer's names alone.
    assert ask("GET", "a/b", Host="lab.storage.googleapis.com").status_code == 403


# Races ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["media", "multipart"])
@pytest.mark.parametrize("existing", [False, True])
def test_of_fifty_writers_one_wins(cloud: Emulator, ask: Ask, way: str, existing: bool) -> None:
    for lap in range(2):
        name, generation = f"race/{lap}", "0"
        if existing:
            generation = put(ask, name).json()["generation"]
        start, codes, won = threading.Barrier(50), Counter[int](), []

        def write(number: int, name: str = name, generation: str = generation,
                  start: threading.Barrier = start, codes: Counter[int] = codes,
                  won: list[int] = won) -> None:  # fmt: skip
            query = f"?uploadType={way}&name={quote(name)}&ifGenerationMatch={generation}"
            body, kind = str(number).encode(), "text/plain"
            if way == "multipart":
                body, kind = multipart({}, body), "multipart/related; boundary=X"
            headers = {"Content-Type": kind}
            start.wait()
            answer = requests.post(cloud.url + UPLOAD + query, body, headers=headers, timeout=60)
            codes[answer.status_code] += 1
            if answer.ok:
                won.append(number)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == {200: 1, 412: 49}
        path = f"{OBJECTS}/{quote(name, safe='')}?alt=media"
        assert ask("GET", path).content == str(won[0]).encode()


# Faults -----------------------------------------------------------------------------------------


def test_faults(ask: Ask, cloud: Emulator) -> None:
    cloud.fault("rate_limit", match={"bucket": "lab"}, count=1, retry_after=3)
    refused = put(ask, "a")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "3")
    cloud.fault("unavailable", match={"method": "objects.insert"}, count=1)
    assert put(ask, "a").status_code == 503
    cloud.fault("iam_denied", match={"permission": "storage.objects.create"}, count=1)
    assert put(ask, "a").status_code == 403
    cloud.fault("drop", match={"object": "a", "method": "POST"}, when="before", count=1)
    with pytest.raises(requests.ConnectionError):
        put(ask, "a")
    assert ask("GET", f"{OBJECTS}/a").status_code == 404
    cloud.fault("drop", match={"object": "a"}, when="after", count=1)
    with pytest.raises(requests.ConnectionError):
        put(ask, "a", query="&ifGenerationMatch=0")
    # A client that only sends it again takes its own success for another's.
    assert put(ask, "a", query="&ifGenerationMatch=0").status_code == 412
    cloud.fault("reset", match={"method": "objects.get"}, count=1)
    with pytest.raises(requests.RequestException):
        ask("GET", f"{OBJECTS}/a?alt=media")
    cloud.fault("object_rate", match={"object": "b"}, seconds=3600)
    assert put(ask, "b").status_code == 200
    refused = put(ask, "b")
    assert refused.json()["error"]["errors"][0]["reason"] == "rateLimitExceeded"
    assert put(ask, "c").status_code == put(ask, "c").status_code == 200


def test_requests_are_counted(ask: Ask, cloud: Emulator) -> None:
    put(ask, "a")
    ask("GET", OBJECTS)
    ask("GET", f"{OBJECTS}/a?alt=media")
    counts = cloud.control("requests", method="GET")
    found = {name: counts[f"storage.objects.{name}"] for name in ("insert", "list", "get")}
    assert found == {"insert": 1, "list": 1, "get": 1}


@pytest.mark.parametrize("value", ["\x01" * 7000, "\x7f\x9b31m", " a\r\nb: c\t", "<" * 8000])
def test_custom_metadata_whose_values_no_header_can_have(ask: Ask, value: str) -> None:
    body = multipart({"name": "m", "metadata": {"step": value}}, b"x")
    kind = "multipart/related; boundary=X"
    made = ask("POST", f"{UPLOAD}?uploadType=multipart", body, Content_Type=kind)
    assert made.json()["metadata"] == {"step": value}
    got = ask("GET", f"{OBJECTS}/m?alt=media")
    assert (got.status_code, got.content) == (200, b"x")
    assert "b" not in got.headers


def test_custom_metadata_whose_names_no_header_can_have(ask: Ask, cloud: Emulator) -> None:
    metadata = {"größe": "7", "two words": "v", "step": "42"}
    body, kind = (
        multipart({"name": "m", "metadata": metadata}, b"x"),
        "multipart/related; boundary=X",
    )
    made = ask("POST", f"{UPLOAD}?uploadType=multipart", body, Content_Type=kind)
    assert made.json()["metadata"] == metadata
    for path in (f"{OBJECTS}/m?alt=media", "lab/m"):
        got = ask("GET", path)
        custom = {key for key in got.headers if key.startswith("x-goog-meta-")}
        assert (got.status_code, got.content, custom) == (200, b"x", {"x-goog-meta-step"})
    where = urlsplit(cloud.url)
    with socket.create_connection((where.hostname, where.port), timeout=10) as line:
        named = "x-goog-meta-größe: 7".encode()
        line.sendall(b"PUT /lab/n HTTP/1.1\r\nHost: localhost\r\n" + named + b"\r\n\r\n")
        assert line.recv(64).startswith(b"HTTP/1.1 400 ")
