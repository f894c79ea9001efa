"""A slice of workers as threads: downloaded once, the same on all, whatever breaks."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import threading
from pathlib import Path
from typing import Any

import pytest
from data_origin import TOKEN, DataOrigin, serving
from dataset_agent.act.dataset_place import Place, lacking
from dataset_agent.agent import Agent
from dataset_agent.decide.config import Config, Dataset
from ports import free_port

ID = "0123456789abcdef"
ME = pwd.getpwuid(os.getuid())


class Slice:
    """Some workers on loopback, each with a disk of its own."""

    def __init__(self, folder: Path, origin: DataOrigin, workers: int = 1) -> None:
        self.folder, self.origin = folder, origin
        self.hosts = tuple(f"127.0.0.{number + 1}" for number in range(workers))
        self.port, self.key = free_port(), "k" * 64
        self.agents: list[Agent] = []

    def path(self, worker: int) -> Path:
        return self.folder / f"w{worker}" / "set"

    def agent(self, worker: int, source: str = "gs://lab/data", **more: Any) -> Agent:
        own = {"name": "set", "id": ID, "size": 1 << 20, "path": str(self.path(worker))}
        dataset = Dataset(**{**own, "source": source, **more})
        config = Config(
            datasets=(dataset,),
            hosts=self.hosts,
            worker=worker,
            port=self.port,
            key=self.key,
            **dict.fromkeys(("hub", "storage", "metadata"), self.origin.url),
            tokens={"set": self.origin.hub_token},
        )
        status = self.folder / f"w{worker}" / "status"
        status.mkdir(parents=True, exist_ok=True)
        Place(dataset.path).prepare(ME, None)
        agent = Agent(config, status, pause=0.05, poll=0.05)
        self.agents.append(agent)
        return agent

    def run(self, agent: Agent) -> threading.Thread:
        agent.listen()
        thread = threading.Thread(target=agent.run, daemon=True)
        thread.start()
        return thread

    def content(self, worker: int = 0) -> dict[str, bytes]:
        place = self.path(worker)
        found = (path for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(place)): path.read_bytes() for path in found}

    def status(self, worker: int = 0) -> dict[str, Any]:
        text = (self.folder / f"w{worker}" / "status" / "set.json").read_text()
        return dict(json.loads(text))


@pytest.fixture(autouse=True)
def small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataset_agent.act.shelf.RESERVE", 0)
    monkeypatch.setattr("dataset_agent.act.download._PAUSE", 0.01)


def staged_once(agent: Agent) -> str:
    """Try once; return what it says then."""
    shelf = agent.shelves[0]
    shelf.load()
    agent._stage(shelf)
    return f"{shelf.state}: {shelf.says}"


def test_a_slice_of_four_downloads_each_file_once(tmp_path: Path, origin: DataOrigin) -> None:
    origin.files |= {f"data/{number}": os.urandom(20_000) for number in range(20)}
    lab = Slice(tmp_path, origin, workers=4)
    # The others ask before the first has begun, and while it downloads.
    waiting = [lab.run(lab.agent(worker)) for worker in (1, 2, 3)]
    first = lab.agent(0)
    lab.run(first)
    for thread in waiting:
        thread.join(30)
        assert not thread.is_alive()
    wanted = {name[5:]: data for name, data in origin.files.items() if name.startswith("data/")}
    assert [lab.content(worker) for worker in range(4)] == [wanted] * 4
    assert origin.asked == {f"data/{name}": 1 for name in wanted}
    assert origin.given == sum(map(len, wanted.values()))
    for worker in range(4):
        assert lab.status(worker)["state"] == "ready"
        assert lacking("set", str(lab.path(worker)), ID) == ""
    first.close()


def test_the_first_worker_passes_on_what_it_has_after_a_new_start(
    tmp_path: Path, origin: DataOrigin
) -> None:
    lab = Slice(tmp_path, origin, workers=2)
    assert staged_once(lab.agent(0)).startswith("ready: 3.4 KiB in 2 files")
    origin.files.clear()
    again = lab.agent(0)
    lab.run(again)
    second = lab.run(lab.agent(1))
    second.join(20)
    assert set(lab.content(1)) == {"a.bin", "b.bin"}
    again.close()


def test_without_a_key_each_worker_downloads_for_itself(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin, workers=2)
    lab.key = ""
    for worker in range(2):
        assert lab.agent(worker).run() == 0
    assert origin.asked == {"data/a.bin": 2, "data/b.bin": 2}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("gs://lab", {"data/a.bin", "data/b.bin", "README.md"}),
        ("gs://lab/data", {"a.bin", "b.bin"}),
        ("gs://lab/data/a.bin", {"a.bin"}),
        ("hf://datasets/lab/set", {"data/a.bin", "data/b.bin", "README.md"}),
        ("hf://lab/set@v1/data", {"a.bin", "b.bin"}),
        ("hf://datasets/lab/set/data/b.bin", {"b.bin"}),
    ],
)
def test_what_an_address_brings(
    tmp_path: Path, origin: DataOrigin, source: str, names: set[str]
) -> None:
    origin.large, origin.page = {"data/a.bin"}, 2
    lab = Slice(tmp_path, origin)
    assert lab.agent(0, source).run() == 0
    assert set(lab.content()) == names
    assert all(data[:1] in (b"a", b"b", b"w") for data in lab.content().values())


def test_a_file_of_the_web_with_its_checksum(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    url = f"{origin.url}/files/data/a.bin"
    wrong = staged_once(lab.agent(0, url, sha256="0" * 64))
    assert wrong.startswith("failed: a.bin: its sha256 is")
    assert not lab.path(0).exists()
    right = hashlib.sha256(origin.files["data/a.bin"]).hexdigest()
    assert staged_once(lab.agent(0, url, sha256=right)).startswith("ready")


def test_a_spoilt_file_never_gets_into_its_place(tmp_path: Path, origin: DataOrigin) -> None:
    origin.spoilt = {"data/b.bin"}
    lab = Slice(tmp_path, origin)
    agent = lab.agent(0)
    assert staged_once(agent).startswith("failed: b.bin: its md5 is")
    assert "its md5 is" in lacking("set", str(lab.path(0)), ID, tmp_path / "w0" / "status")
    assert not lab.path(0).exists()
    # The next attempt brings that file alone.
    assert staged_once(agent).startswith("ready")
    assert origin.asked == {"data/a.bin": 1, "data/b.bin": 2}


def test_a_download_goes_on_where_it_was_broken_off(tmp_path: Path, origin: DataOrigin) -> None:
    origin.cut = {"data/a.bin": 1000}
    lab = Slice(tmp_path, origin)
    assert lab.agent(0).run() == 0
    assert origin.asked["data/a.bin"] == 2
    assert origin.given == 3500, "what was there is not sent again"


def test_a_killed_agent_goes_on_where_it_was(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    agent = lab.agent(0)
    shelf = agent.shelves[0]
    origin.refuses = {"/storage/v1/b/lab/o/data%2Fb.bin": 403}
    assert staged_once(agent) == "failed: 127.0.0.1 answers 403"
    coming = shelf.place.part(ID) / "coming"
    (coming / "of another version").write_bytes(b"old")
    origin.refuses = {}
    assert lab.agent(0).run() == 0
    assert origin.asked == {"data/a.bin": 1, "data/b.bin": 1}
    assert not coming.exists()


def test_a_worker_of_another_slice_gets_nothing(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin, workers=2)
    first = lab.agent(0)
    lab.run(first)
    lab.key = "another"
    second = lab.agent(1)
    for _look in range(100):
        if first.shelves[0].state == "ready":
            break
        threading.Event().wait(0.05)
    assert "has other data sets" in staged_once(second)
    assert not lab.path(1).exists()
    first.close()


def test_a_neighbour_that_is_none_is_not_believed(tmp_path: Path, origin: DataOrigin) -> None:
    forger = DataOrigin()
    lab = Slice(tmp_path, origin, workers=2)
    with serving(forger):
        lab.port = int(forger.url.rpartition(":")[2])
        forger.refuses = {f"/set/{ID}/list/0": 200}
        assert "is no worker of this slice" in staged_once(lab.agent(1))


def test_the_hubs_token_goes_to_the_hub_alone(tmp_path: Path, origin: DataOrigin) -> None:
    origin.hub_token, origin.large = "hf_secret", {"data/a.bin"}
    with serving(DataOrigin(), "127.0.0.2") as elsewhere:
        elsewhere.files = origin.files
        origin.elsewhere = elsewhere.url
        lab = Slice(tmp_path, origin)
        assert staged_once(lab.agent(0, "hf://lab/set")).startswith("ready")
        assert elsewhere.asked == {"data/a.bin": 1}
        assert {token for _path, token in elsewhere.tokens} == {""}
    assert {token for _path, token in origin.tokens} == {"Bearer hf_secret"}
    text = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "hf_secret" not in text


def test_a_gated_repository_names_what_is_missing(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    agent = lab.agent(0, "hf://lab/set")
    origin.hub_token = "hf_secret"
    assert staged_once(agent) == (
        "failed: the hub has no models/lab/set@main for us: one that is private or gated needs "
        "secrets, a set with HF_TOKEN"
    )


def test_a_bucket_is_read_with_the_machines_account(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    assert lab.agent(0).run() == 0
    asked = {token for path, token in origin.tokens if path.startswith("/storage")}
    assert asked == {f"Bearer {TOKEN}"}


def test_a_new_content_takes_the_place_of_the_old_one(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    assert lab.agent(0).run() == 0
    assert lab.agent(0, "gs://lab/README.md", id="f" * 16).run() == 0
    assert set(lab.content()) == {"README.md"}
    left = sorted(path.name for path in (tmp_path / "w0" / ".set.dataset").iterdir())
    assert left == ["current", "f" * 16, f"{'f' * 16}.list"]


def test_what_does_not_fit_is_refused_before_a_byte_comes(
    tmp_path: Path, origin: DataOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Slice(tmp_path, origin)
    assert staged_once(lab.agent(0, size=1000)) == (
        "failed: it has 3.4 KiB, and size = 1000 B. Raise size, or choose some by include"
    )
    monkeypatch.setattr("dataset_agent.act.shelf.RESERVE", 1 << 60)
    assert "has room for 0 B, and 3.4 KiB are to come" in staged_once(lab.agent(0))
    assert origin.given == 0


def test_patterns_choose_files(tmp_path: Path, origin: DataOrigin) -> None:
    lab = Slice(tmp_path, origin)
    assert lab.agent(0, "gs://lab", include=("*.md", "data/b*")).run() == 0
    assert set(lab.content()) == {"README.md", "data/b.bin"}
    assert "has no such file" in staged_once(lab.agent(0, id="e" * 16, include=("*.txt",)))


def test_what_cannot_begin_is_said_and_tried_by_another_start(
    tmp_path: Path, origin: DataOrigin
) -> None:
    lab = Slice(tmp_path, origin)
    agent = lab.agent(0)
    agent.blocked = {"set": "the secrets hf have no HF_TOKEN"}
    assert agent.run() == os.EX_TEMPFAIL
    assert lab.status()["says"] == "the secrets hf have no HF_TOKEN"
    assert origin.asked == {}
