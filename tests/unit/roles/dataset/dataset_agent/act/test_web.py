"""To where requests go, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_origin import DataOrigin
from dataset_agent.act import web
from dataset_agent.act.download import CannotStore, Download
from dataset_agent.decide.listing import UNKNOWN, Item


def test_a_redirection_to_an_address_without_tls_is_not_followed(origin: DataOrigin) -> None:
    origin.large, origin.elsewhere = {"data/a.bin"}, "http://files.example.org"
    url = f"{origin.url}/lab/set/resolve/{'5' * 40}/data/a.bin"
    with pytest.raises(web.Refused, match="redirects to an address without TLS"):
        web.json_of(url)


@pytest.mark.parametrize("url", ["http://example.org/a", "file:///etc/passwd", "ftp://127.0.0.1/a"])
def test_only_safe_addresses_are_asked(url: str) -> None:
    with pytest.raises(web.Refused, match="is an address without TLS"):
        web.json_of(url)


def test_a_bucket_is_not_followed_elsewhere(origin: DataOrigin) -> None:
    origin.large, origin.elsewhere = {"data/a.bin"}, origin.url
    url = f"{origin.url}/lab/set/resolve/{'5' * 40}/data/a.bin"
    with pytest.raises(web.CannotGet, match="answers 302"), web.opened(url, way=web.STAYS):
        pass


def item(name: str, size: int) -> Item:
    return Item("a", size, name, "1")


def give(origin: DataOrigin, offset: int) -> object:
    return web.reading(f"{origin.url}/files/data/a.bin", offset)


def test_a_server_without_parts_gives_a_file_from_its_begin(
    origin: DataOrigin, tmp_path: Path
) -> None:
    origin.has_ranges = False
    target = tmp_path / "a"
    target.write_bytes(b"x" * 1000)
    found = Download(item("data/a.bin", 3000), target, 0).run(lambda _item, at: give(origin, at))  # type: ignore[arg-type, return-value]
    assert found[0] == 3000
    assert target.read_bytes() == origin.files["data/a.bin"]


def test_a_file_without_a_size_is_bounded_while_it_comes(
    origin: DataOrigin, tmp_path: Path
) -> None:
    target = tmp_path / "a"
    with pytest.raises(CannotStore, match="it is larger than 100 B"):
        Download(item("data/a.bin", UNKNOWN), target, 100).run(lambda _item, at: give(origin, at))  # type: ignore[arg-type, return-value]
    assert target.stat().st_size <= 100


def test_a_server_that_never_gives_all_is_given_up(origin: DataOrigin, tmp_path: Path) -> None:
    with pytest.raises(web.CannotGet, match="ended before the file did"):
        Download(item("data/a.bin", 4000), tmp_path / "a", 0, pause=0.001).run(
            lambda _item, at: give(origin, min(at, 2999))  # type: ignore[arg-type, return-value]
        )
