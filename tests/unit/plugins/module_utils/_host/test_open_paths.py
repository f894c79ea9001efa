"""What processes have open, though users open any number of files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.open_paths import (
    MOST_BYTES,
    TooMuchError,
    is_mentioned,
    open_paths,
    users_below,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    act as _checkout,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk import look as _disks
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    build as _venv_build,
)


def process(proc: Path, pid: int, *files: str, maps: str = "", environ: str = "") -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, file in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(file)
    (folder / "cwd").symlink_to(f"/work/{pid}")
    (folder / "maps").write_text(maps)
    (folder / "cmdline").write_bytes(b"python\0/opt/venvs/script")
    (folder / "environ").write_bytes(environ.encode())


def test_open_paths_are_read_and_not_followed(tmp_path: Path) -> None:
    maps = "7f0-7f1 r-xp 00000000 08:01 5 /usr/lib/a b.so\n7f2-7f3 rw-p 00000000 00:00 0 \n"
    process(tmp_path, 5, "/nowhere/at all", "socket:[77]", maps=maps)
    (tmp_path / "6").mkdir()  # it has ended
    found = open_paths(str(tmp_path))
    assert found == {"/work/5", "/nowhere/at all", "socket:[77]", "/usr/lib/a b.so"}


def test_a_mention_is_found_in_files_arguments_and_environment(tmp_path: Path) -> None:
    process(tmp_path, 5, "/opt/a/x", environ="VIRTUAL_ENV=/opt/b/")
    for text, there in (("/opt/a/", True), ("/opt/b/", True), ("/opt/venvs/", True), ("/c", False)):
        assert is_mentioned(text, str(tmp_path)) is there


def test_a_large_environment_is_read_in_part(tmp_path: Path) -> None:
    process(tmp_path, 5, environ="x" * (2 * MOST_BYTES) + "/opt/late")
    assert not is_mentioned("/opt/late", str(tmp_path))


def test_more_than_can_be_looked_at_counts_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, 5, "/opt/a")
    with pytest.raises(TooMuchError):
        open_paths(str(tmp_path), -1.0)
    with pytest.raises(TooMuchError):
        is_mentioned("/c", str(tmp_path), -1.0)

    def too_much(*_given: object) -> bool:
        raise TooMuchError

    monkeypatch.setattr(_venv_build, "is_mentioned", too_much)
    assert _venv_build.uses("/opt/venvs/.a-1/")
    monkeypatch.setattr(_checkout, "open_paths", too_much)
    assert _checkout.paths_in_use() is None


def test_users_of_a_folder_are_those_of_all_that_is_in_it(tmp_path: Path) -> None:
    process(tmp_path, 5, "/data", maps="7f0-7f1 r--p 00000000 08:01 5 /else\n")
    process(tmp_path, 40, "/data/x (deleted)")
    process(tmp_path, 6, "/database/x", "socket:[77]")
    process(tmp_path, 7, maps="7f0-7f1 r-xp 00000000 08:01 5 /data/lib.so\n")
    found = [found.name for found in users_below("/data", str(tmp_path))]
    assert found == ["5", "7", "40"]
    with pytest.raises(TooMuchError):
        list(users_below("/data", str(tmp_path), -1.0))


def test_users_of_a_disk_are_found_without_a_look_at_other_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process has open may be on a share whose server is gone: any look at it waits."""

    proc = Path("/proc").stat()

    def waits(path: object, *_given: object, **_more: object) -> os.stat_result:
        # Python 3.10 looks at /proc itself before it lists it.
        assert str(path) == "/proc", f"{path} would wait"
        return proc

    # pytest itself looks at files when a test fails: for this call alone.
    with (tmp_path / "file").open("w"), monkeypatch.context() as patch:
        for module, name in ((os, "stat"), (os, "lstat"), (os.path, "realpath"), (Path, "stat")):
            patch.setattr(module, name, waits)
        users = _disks.users_of(str(tmp_path))
    assert [user for user in users if user.startswith(f"process {os.getpid()}: ")]


def test_a_run_whose_folder_is_on_a_dead_share_keeps_old_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = SimpleNamespace(workdirs=lambda: {"/shares/dead"})
    monkeypatch.setattr(_checkout, "RunFiles", lambda: runs)
    monkeypatch.setattr(os.path, "realpath", lambda _path: time.sleep(300))
    monkeypatch.setattr(_checkout, "LINK_SECONDS", 0.2)
    assert _checkout.paths_in_use() is None


def test_this_process_is_found() -> None:
    assert os.path.realpath("/proc/self/exe") in open_paths()
