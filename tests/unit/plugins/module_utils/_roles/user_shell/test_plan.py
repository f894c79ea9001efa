"""What shells read, what is unpacked, and what becomes of dotfiles."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import UserError
from ansible_collections.tpu.fleet.plugins.module_utils._host.unpack import Unfit, tree_id, unpack
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_shell.dotfiles import (
    KEEP,
    Dotfiles,
    Wish,
    checked_record,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_shell.plan import (
    files,
    mark,
    people_here,
    with_block,
)

ALICE = {"name": "alice", "uid": 2001, "shell": "/usr/bin/zsh"}
BOB = {"name": "bob", "uid": 2002}
SETTINGS = {
    "slice": "pair",
    "worker_index": 1,
    "worker_count": 2,
    "theme": "robbyrussell",
    "plugins": ["git"],
    "prompt": True,
    "editor": "",
}


def people(*wishes: dict[str, Any], users: tuple[dict[str, Any], ...] = (ALICE, BOB)) -> Any:
    found = people_here({**SETTINGS, "users": users, "people": wishes})
    return {person.user: person for person in found}


def test_zsh_is_the_login_shell_that_is_declared() -> None:
    found = people()
    assert (found["alice"].zsh, found["alice"].ohmyzsh) == (True, True)
    assert (found["bob"].zsh, found["bob"].ohmyzsh) == (False, False)


@pytest.mark.parametrize(
    ("wish", "key", "value"),
    [
        ({"user": "alice", "theme": "agnoster"}, "theme", "agnoster"),
        ({"user": "alice", "plugins": []}, "plugins", ()),
        ({"user": "alice", "ohmyzsh": False}, "ohmyzsh", False),
        ({"user": "alice", "slices": ["solo"], "theme": "agnoster"}, "theme", "robbyrussell"),
        ({"user": "bob", "theme": "agnoster"}, "theme", "robbyrussell"),
    ],
)
def test_a_wish_holds_for_its_user_on_its_slices(wish: Any, key: str, value: Any) -> None:
    assert getattr(people(wish)["alice"], key) == value


def test_who_is_not_here_gets_nothing() -> None:
    gone = {**ALICE, "state": "absent"}
    elsewhere = {**BOB, "slices": ["solo"]}
    assert people(users=(gone, elsewhere)) == {}


@pytest.mark.parametrize(
    ("arguments", "text"), [(("solo", 0, 1), "solo"), (("pair", 1, 2), "pair w1"), (("", 0, 1), "")]
)
def test_the_mark_names_the_worker_where_there_are_several(arguments: Any, text: str) -> None:
    assert mark(*arguments) == text


def test_only_what_is_wanted_is_written() -> None:
    assert files({**SETTINGS, "prompt": False}, []) == {}
    names = {Path(path).name for path in files(SETTINGS, list(people().values()))}
    assert names == {"interactive.bash", "interactive.zsh", "login.zsh", "zshrc", "alice.zsh"}


def test_the_prompt_is_marked_once(tmp_path: Path) -> None:
    """Of bash; the scenario of the role does the same with zsh."""
    path = tmp_path / "file"
    path.write_text(next(c for p, c in files(SETTINGS, []).items() if p.endswith("bash")))
    shown = f'. {path}; . {path}; PS1="$ "; for i in 1 2; do eval "$PROMPT_COMMAND"; done; '
    done = subprocess.run(
        ["bash", "-c", shown + 'echo "$PS1$PROMPT_COMMAND"'],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "[pair w1] $ __tpu_fleet_mark\n"


def test_a_block_comes_and_goes_without_a_trace() -> None:
    before = "first\nlast\n"
    once = with_block(before, "line")
    assert with_block(once, "line") == once
    assert "other" in with_block(once, "other")
    assert with_block(once, "") == before
    assert with_block("no end", "line").startswith("no end\n")


def an_archive(*members: tuple[str, str, Any]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, kind, value in members:
            info = tarfile.TarInfo(name)
            if kind == "link":
                info.type, info.linkname = tarfile.SYMTYPE, value
                archive.addfile(info)
            elif kind == "device":
                info.type = tarfile.CHRTYPE
                archive.addfile(info)
            else:
                info.size, info.mode = len(value), 0o755 if kind == "program" else 0o644
                archive.addfile(info, io.BytesIO(value))
    stream.seek(0)
    return stream


def test_the_id_of_a_tree_is_the_one_of_git(tmp_path: Path) -> None:
    members = [
        ("top/a", "file", b"1\n"),
        ("top/a.d/b", "program", b"#!/bin/sh\n"),
        ("top/a-c", "file", b""),
        ("top/a.d/l", "link", "b"),
        ("top/z/ü", "file", b"\xff"),
    ]
    unpack(an_archive(*members), tmp_path / "x", strip=1)
    (tmp_path / "x" / "empty").mkdir()
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(tmp_path / "x"), *words], check=True)
    found = subprocess.run(
        ["git", "-C", str(tmp_path / "x"), "write-tree"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["rm", "-rf", str(tmp_path / "x" / ".git")], check=True)
    assert tree_id(tmp_path / "x") == found


@pytest.mark.parametrize(
    "members",
    [
        [("../x", "file", b"")],
        [("/etc/x", "file", b"")],
        [("t/l", "link", "/etc")],
        [("t/l", "link", "../../x")],
        [("t/d", "device", None)],
        [("t/a", "file", b"1"), ("t/a", "file", b"2")],
    ],
)
def test_an_archive_that_leads_out_is_refused(tmp_path: Path, members: Any) -> None:
    with pytest.raises(Unfit):
        unpack(an_archive(*members), tmp_path)


class Home:
    """A home, and a repository of dotfiles."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.repo = folder / "repo"
        self.git("init", "-q", "-b", "main", str(self.repo), at=folder)
        self.record: dict[str, Any] = {}

    def git(self, *words: str, at: Path | None = None) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(at or self.repo), *who, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, **contents: str | None) -> str:
        for name, content in contents.items():
            path = self.repo / name.replace("__", "/").replace("dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def apply(self, dry: bool = False, **wish: str) -> dict[str, Any]:
        found = {"repo": str(self.repo), "version": "main", **wish}
        done = Dotfiles(str(self.home), Wish(**found), dry, self.record).apply()
        if not dry:
            self.record = checked_record(done["record"])
        return done

    def kept(self, name: str) -> list[str]:
        return [path.read_text() for path in self.home.glob(f"{KEEP}/backup/*/{name}")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_dotfiles_come_follow_and_go(home: Home) -> None:
    home.commit(dot_vimrc="1", dot_config__htop__rc="h", README="no", dot_gitignore="x")
    (home.home / ".vimrc").write_text("mine")
    assert home.apply(dry=True)["changes"]
    assert not (home.home / KEEP).exists()
    done = home.apply()
    assert (home.home / ".vimrc").read_text() == "1"
    assert (home.home / ".config/htop/rc").read_text() == "h"
    assert not list(home.home.glob("README")) + list(home.home.glob(".gitignore"))
    assert home.kept(".vimrc") == ["mine"]
    assert len(done["notes"]) == 1
    for dry in (True, False):
        assert home.apply(dry=dry)["changes"] == []

    home.commit(dot_vimrc=None, dot_bashrc="b")
    home.apply()
    assert not (home.home / ".vimrc").is_symlink()
    assert (home.home / ".bashrc").read_text() == "b"
    assert home.apply()["changes"] == []


def test_what_somebody_changed_is_not_overwritten(home: Home) -> None:
    first = home.commit(dot_vimrc="1")
    home.apply()
    (home.home / ".vimrc").write_text("changed through the link")
    home.commit(dot_vimrc="2")
    done = home.apply()
    assert done["version"] == first
    assert "Commit and push" in done["notes"][0]
    assert (home.home / ".vimrc").read_text() == "changed through the link"
    clone = home.home / KEEP / "dotfiles"
    home.git("commit", "-q", "-a", "-m", "mine", at=clone)
    assert "Commit and push" in home.apply()["notes"][0]


def test_a_server_that_is_away_changes_nothing(home: Home, tmp_path: Path) -> None:
    first = home.commit(dot_vimrc="1")
    with pytest.raises(UserError):
        home.apply(repo=str(tmp_path / "nowhere"))
    home.apply()
    home.repo.rename(tmp_path / "away")
    done = home.apply()
    assert (done["version"], done["changes"]) == (first, [])
    assert done["notes"]
    # A whole id needs no server.
    assert home.apply(version=first)["notes"] == []


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_is_its_commit(home: Home, annotated: bool) -> None:
    first = home.commit(dot_vimrc="1")
    home.git("tag", *(["-a", "-m", "x"] if annotated else []), "v1")
    home.commit(dot_vimrc="2")
    assert home.apply(version="v1")["version"] == first
    assert home.apply(version="v1")["changes"] == []
    with pytest.raises(UserError, match="no branch or tag"):
        Dotfiles(str(home.home / "x"), Wish(repo=str(home.repo), version="v9"), False, {}).apply()


def test_a_subfolder_gives_all_that_is_in_it(home: Home) -> None:
    home.commit(home__bin__tool="t", home__dot_vimrc="1", dot_other="no")
    home.apply(subfolder="home")
    assert (home.home / "bin/tool").read_text() == "t"
    assert not (home.home / ".other").exists()


def test_a_command_runs_once_for_each_version(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home.home))
    home.commit(dot_vimrc="1")
    wish = {"install": "echo x >> ~/ran"}
    assert "run echo x >> ~/ran" in home.apply(**wish)["changes"]
    assert home.apply(**wish)["changes"] == []
    home.commit(dot_vimrc="2")
    home.apply(**wish)
    assert (home.home / "ran").read_text() == "x\nx\n"
    with pytest.raises(UserError, match="ended with 3"):
        home.apply(install="exit 3")
    # What failed is tried again.
    with pytest.raises(UserError, match="ended with 3"):
        home.apply(install="exit 3")


def test_a_folder_is_switched_and_the_one_before_stays(home: Home) -> None:
    def wish(content: bytes, digest: str) -> dict[str, str]:
        members = [(".vimrc", "file", content), (".tpu-fleet-snapshot.json", "file", b"{}")]
        data = base64.b64encode(an_archive(*members).getvalue()).decode()
        return {"repo": "", "digest": digest, "archive": data}

    home.apply(**wish(b"1", "a" * 64))
    assert (home.home / ".vimrc").read_text() == "1"
    (home.home / ".vimrc").write_text("mine")
    home.apply(**wish(b"2", "b" * 64))
    assert (home.home / ".vimrc").read_text() == "2"
    assert (home.home / KEEP / f"dotfiles-{'a' * 16}" / ".vimrc").read_text() == "mine"
    assert home.apply(**wish(b"2", "b" * 64))["changes"] == []


def test_a_record_keeps_only_what_it_may_say() -> None:
    links = [".vimrc", "../../etc/passwd", "/etc/passwd", 5]
    found = checked_record({"version": "1", "links": links, "installed": [1]})
    assert found == {"version": "1", "links": [".vimrc"]}
    assert checked_record(["links"]) == {}
