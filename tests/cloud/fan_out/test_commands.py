"""`tpu-fleet exec` and `tpu-fleet cp` as a person calls them, on real SSH servers."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_folder import Fleet
from json_forms import conforms
from ports import free_port
from sshd import Farm, Relay, Sshd


@pytest.fixture(scope="module")
def fleet(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose configuration is written by the playbook."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), farm, {"solo": 1, "pair": 2, "pod": 12})
    done = fleet.run("exec", "--slice", "solo", "--", "true")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (fleet.state / "ssh_config").stat().st_mode & 0o777 == 0o600
    return fleet


def without_ansible(folder: Path) -> dict[str, str]:
    """Let any use of Ansible fail."""
    (folder / "ansible.py").write_text("raise SystemExit('Ansible was asked')\n")
    (folder / "ansible_runner.py").write_text("raise SystemExit('Ansible was asked')\n")
    return {"PYTHONPATH": str(folder)}


# exec


def test_every_worker_says_its_name_and_ansible_is_not_asked(fleet: Fleet, tmp_path: Path) -> None:
    more = without_ansible(tmp_path)
    done = fleet.run("exec", "--prefix", "--", "echo here; echo there >&2", more=more)
    assert done.returncode == 0, done.stderr
    names = ["solo", "pair-w0", "pair-w1", *(f"pod-w{number}" for number in range(12))]
    assert sorted(done.stdout.splitlines()) == sorted(f"{name} | here" for name in names)
    assert sorted(done.stderr.splitlines()) == sorted(f"{name} | there" for name in names)
    # The guard itself works.
    done = fleet.run("exec", "--refresh", "--", "true", more=more)
    assert (done.returncode, "Ansible was asked" in done.stderr) == (1, True)


def test_what_is_equal_is_said_once(fleet: Fleet) -> None:
    # Only one of them has the port in its connection that this asks for.
    address = fleet.groups["tpu"]["pod-w11"]["ansible_host"]
    command = f'case "$SSH_CONNECTION" in *{address}*) echo odd; exit 3 ;; esac; echo even'
    done = fleet.run("exec", "--slice", "pod", "--merge", "--", command)
    assert done.returncode == 1
    assert done.stdout == "pod-w[0-10] (11) said:\neven\npod-w11, exit status 3, said:\nodd\n"
    assert done.stderr == "11 of 12 ok; exit status 3: pod-w11\n"


def test_one_worker_is_like_ssh(fleet: Fleet) -> None:
    done = fleet.run("exec", "--limit", "pair-w1", "--", "printf", "%s|", "a b", "$HOME", "'")
    assert (done.returncode, done.stdout) == (0, "a b|$HOME|'|"), done.stderr


def test_json(fleet: Fleet) -> None:
    done = fleet.run("exec", "--limit", "tpu_slice_pair", "--json", "--", "echo x; exit 7")
    told = conforms(["exec"], done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert [row["worker"] for row in told["workers"]] == ["pair-w0", "pair-w1"]
    row = told["workers"][0]
    assert (row["kind"], row["exit_status"], row["stdout"], row["ok"]) == ("done", 7, "x\n", False)
    assert told["summary"] == {"ok": 0, "failed": 2, "no_result": 0}
    assert told["exit_code"] == 1


def test_wrong_names_are_said(fleet: Fleet) -> None:
    done = fleet.run("exec", "--slice", "trio", "--", "true")
    assert done.returncode == 1
    assert "There is no slice trio. There is pair, pod, solo." in done.stderr
    done = fleet.run("exec", "--limit", "pair-w7", "--", "true")
    assert "No worker and no group is called pair-w7." in done.stderr


def test_options_of_the_command_without_the_mark(fleet: Fleet) -> None:
    done = fleet.run("exec", "--slice", "pair", "nproc", "--all")
    assert done.returncode == 2
    assert "No such option: --all. The workers' command follows --" in done.stderr


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # It ends before or while it is read.
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def sleepers(fleet: Fleet, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A command that runs on three workers, and the processes that it is there."""
    # Also what it started in turn, which ignores that its parent is gone.
    command = f"sleep 3600 & echo $! >{tmp_path}/$$.child; echo $$ >{tmp_path}/$$.parent; wait"
    process = fleet.start("exec", "--limit", "pod-w[0-2]", "--", command)
    wait_for(lambda: len(list(tmp_path.glob("*.parent"))) == 3, "the commands did not begin")
    wait_for(
        lambda: all(path.read_text().strip() for path in tmp_path.glob("*.parent")), "no number"
    )
    pids = [int(path.read_text()) for path in tmp_path.iterdir() if path.suffix]
    assert len(pids) == 6
    assert all(map(alive, pids))
    yield process, pids
    process.kill()
    process.communicate()
    for pid in filter(alive, pids):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "number",
    # One signal is told of as the other is.
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.night), signal.SIGKILL],
)
def test_the_commands_end_when_we_do(
    sleepers: tuple[subprocess.Popen[str], list[int]], number: signal.Signals
) -> None:
    """With Ctrl-C, when we are asked to end, and when we cannot say goodbye any more."""
    process, pids = sleepers
    process.send_signal(number)
    _out, err = process.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "Interrupted" in err
        assert "Traceback" not in err
    wait_for(lambda: not any(map(alive, pids)), "they run on")


def test_whoever_reads_may_stop_reading(fleet: Fleet) -> None:
    process = fleet.start("exec", "--prefix", "--slice", "pair", "--", "yes")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().endswith("| y\n")
    process.stdout.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


# In CI test_ssh.py has a worker that moved.
@pytest.mark.night
def test_a_worker_that_moved_is_found(farm: Farm, tmp_path: Path) -> None:
    """Its address is asked for once, and only it is tried again."""
    fleet = Fleet(tmp_path / "fleet", farm, {"pair": 2})
    assert fleet.run("exec", "--", "true").returncode == 0
    config = fleet.state / "ssh_config"
    moved = fleet.groups["tpu"]["pair-w1"]["ansible_host"]
    nowhere = "127.77.11.1"
    port = free_port(nowhere)
    [path] = (fleet.state / "workers").iterdir()
    stored = json.loads(path.read_text())
    stored["targets"]["pair-w1"].update(address=nowhere, port=port)
    path.write_text(json.dumps(stored))
    config.unlink()

    done = fleet.run("exec", "--no-refresh", "--prefix", "--", "echo here")
    assert done.returncode == 2
    assert done.stdout == "pair-w0 | here\n"
    assert "pair-w1: refused: 127.77.11.1 refuses connections" in done.stderr
    assert "1 of 2 ok; no result: pair-w1" in done.stderr

    before = farm.sessions()
    done = fleet.run("exec", "--prefix", "--", "echo here")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["pair-w0 | here", "pair-w1 | here"]
    assert "1 not reached. Reading their addresses from the API." in done.stderr
    assert farm.sessions() - before == 2
    assert f"HostName {moved}\n" in config.read_text()


def test_the_configuration_of_another_fleet_is_not_used(farm: Farm, tmp_path: Path) -> None:
    one = Fleet(tmp_path / "one", farm, {"pair": 2})
    two = Fleet(tmp_path / "two", farm, {"solo": 1})
    two.state = one.state
    two.write()
    assert one.run("exec", "--merge", "--", "echo a").stdout == "pair-w[0-1] (2) said:\na\n"
    assert two.run("exec", "--merge", "--", "echo b").stdout == "solo said:\nb\n"
    assert one.run("exec", "--merge", "--", "echo c").stdout == "pair-w[0-1] (2) said:\nc\n"


def test_a_state_folder_elsewhere_is_remembered(farm: Farm, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    elsewhere = {"TPU_FLEET_STATE_DIR": str(tmp_path / "default")}
    assert fleet.run("exec", "--", "echo a", more=elsewhere).stdout == "a\n"
    more = {**elsewhere, **without_ansible(tmp_path)}
    assert fleet.run("exec", "--", "echo b", more=more).stdout == "b\n"


def test_a_worker_that_cannot_be_used_is_not_passed_over(farm: Farm, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"pair": 2})
    fleet.groups["tpu_unavailable"] = {"pair-w1": {}}
    usable = fleet.groups["tpu"].pop("pair-w1")
    fleet.write()
    done = fleet.run("exec", "--merge", "--", "echo a")
    assert done.returncode == 2
    assert done.stdout == "pair-w0 said:\na\n"
    assert "pair-w1: unavailable: " in done.stderr
    assert "1 of 2 ok; no result: pair-w1" in done.stderr

    # As soon as it can be used, no command has to be told so.
    fleet.groups["tpu"]["pair-w1"] = usable
    fleet.groups["tpu_unavailable"] = {}
    fleet.write()
    done = fleet.run("exec", "--no-refresh", "--merge", "--", "echo b")
    assert "pair-w1: unavailable: " in done.stderr
    done = fleet.run("exec", "--merge", "--", "echo b")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pair-w[0-1] (2) said:\nb\n"


def test_no_fleet_here(tmp_path: Path, farm: Farm) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    (fleet.folder / "hosts.yml").unlink()
    done = fleet.run("exec", "--", "true")
    assert done.returncode == 1
    assert f"There is no fleet here: {fleet.folder}/hosts.yml does not exist." in done.stderr


def test_a_fleet_that_cannot_be_asked(tmp_path: Path, farm: Farm) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    (fleet.folder / "hosts.yml").write_text("no inventory")
    (fleet.folder / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts.yml\n[inventory]\nany_unparsed_is_failed = true\n"
    )
    done = fleet.run("exec", "--", "true")
    assert done.returncode == 1
    assert "The fleet cannot be read" in done.stderr


def test_as_root_and_as_somebody_else(
    farm: Farm, tmp_path: Path, authorized: str, ending: Callable[..., None]
) -> None:
    """A sudo that only says so; it takes nothing but what cannot ask for a password."""
    programs = tmp_path / "bin"
    programs.mkdir()
    sudo = programs / "sudo"
    sudo.write_text(
        '#!/bin/sh\n[ "$1 $2 $3" = "-n -H --" ] || exit 9\nshift 3\nROOT=yes exec "$@"\n'
    )
    sudo.chmod(0o755)
    path = f"SetEnv SHLVL=2 PATH={programs}:/usr/bin:/bin"
    server = Sshd(tmp_path / "sshd", ["127.77.13.1"], authorized, path)
    ending(server)
    known = tmp_path / "known"
    known.write_text(f"tpu.w0.0 {server.host_key}\n")
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    solo = fleet.groups["tpu"]["solo"]
    solo["ansible_host"] = "127.77.13.1"
    solo["tpu_vm_ssh_options"].update(Port=server.port, UserKnownHostsFile=str(known))
    fleet.write()
    assert fleet.run("exec", "--", "echo root: $ROOT").stdout == "root:\n"
    assert fleet.run("exec", "--sudo", "--", "echo root: $ROOT; exit 4").stdout == "root: yes\n"
    (tmp_path / "file").write_text("x")
    assert fleet.run("cp", "--sudo", tmp_path / "file", f":{tmp_path}/there").returncode == 0
    assert (tmp_path / "there").read_text() == "x"
    done = fleet.run("exec", "--user", "nobody-of-this-name", "--", "true")
    assert done.returncode == 2
    assert "solo: auth: nobody-of-this-name may not log in" in done.stderr


# cp


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with everything that may be in one."""
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "blob").write_bytes(os.urandom(3_000_001))
    (tree / "deep" / "er" / "naïve name\twith $all").write_bytes(bytes(range(256)))
    (tree / "deep" / "run").write_text("#!/bin/sh\n")
    (tree / "deep" / "run").chmod(0o751)
    (tree / "deep" / "secret").write_text("x")
    (tree / "deep" / "secret").chmod(0o400)
    (tree / "link").symlink_to("deep/run")
    (tree / "nothing").write_text("")
    return tree


def contents(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Describe all that is in a folder."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", stat.S_IMODE(path.stat().st_mode))
        else:
            seen = path.stat()
            found[name] = (path.read_bytes(), stat.S_IMODE(seen.st_mode), int(seen.st_mtime))
    return found


def test_a_folder_there_and_back(fleet: Fleet, tree: Path, tmp_path: Path) -> None:
    """One computer plays all workers: each has a folder of its own, by its address."""
    there = tmp_path / "there"
    make = f'd={there}/$(echo $SSH_CONNECTION | cut -d" " -f3); mkdir -p $d; echo $d'
    assert fleet.run("exec", "--slice", "pair", "--", make).returncode == 0
    places = sorted(there.iterdir())
    assert len(places) == 2
    # All workers share one disk, so each is copied to by itself.
    for name, place in zip(("pair-w0", "pair-w1"), places, strict=True):
        done = fleet.run("cp", tree, f"{name}:{place}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert contents(place / "tree") == contents(tree)
        assert [path.name for path in place.iterdir()] == ["tree"]
    back = tmp_path / "back"
    done = fleet.run("cp", "--slice", "pair", f":{places[0]}/tree", back)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in back.iterdir()) == ["pair-w0", "pair-w1"]
    for name in ("pair-w0", "pair-w1"):
        assert contents(back / name / "tree") == contents(tree)
        assert [path.name for path in (back / name).iterdir()] == ["tree"]


def test_all_workers_get_it_at_once(fleet: Fleet, tree: Path, tmp_path: Path) -> None:
    """All write the same name on one computer: the last one's file is whole."""
    there = tmp_path / "there"
    there.mkdir()
    before = fleet.farm.sessions()
    done = fleet.run("cp", tree / "blob", tree / "deep" / "run", f":{there}/")
    assert (done.returncode, done.stderr) == (0, "")
    assert fleet.farm.sessions() - before == 15
    assert sorted(path.name for path in there.iterdir()) == ["blob", "run"]
    assert (there / "blob").read_bytes() == (tree / "blob").read_bytes()
    assert stat.S_IMODE((there / "run").stat().st_mode) == 0o751


def test_names_as_with_cp(fleet: Fleet, tree: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "old").mkdir(parents=True)
    (there / "old" / "kept").write_text("mine")
    (there / "old" / "run").write_text("before")
    assert fleet.run("cp", tree / "blob", f"solo:{there}/other name").returncode == 0
    assert (there / "other name").read_bytes() == (tree / "blob").read_bytes()
    # Onto a file, and a folder onto one that is there: what else is in it stays.
    assert fleet.run("cp", tree / "nothing", f"solo:{there}/other name").returncode == 0
    assert (there / "other name").read_bytes() == b""
    (tree / "deep").rename(tree / "old")
    assert fleet.run("cp", tree / "old", f"solo:{there}").returncode == 0
    assert (there / "old" / "kept").read_text() == "mine"
    assert (there / "old" / "run").read_text() == "#!/bin/sh\n"
    assert (there / "old" / "er").is_dir()
    # Down, under another name.
    assert fleet.run("cp", f"solo:{there}/old/run", tmp_path / "got").returncode == 0
    assert (tmp_path / "got").read_text() == "#!/bin/sh\n"
    assert sorted(path.name for path in there.iterdir()) == ["old", "other name"]


def test_who_failed_is_said_and_the_rest_is_done(fleet: Fleet, tree: Path, tmp_path: Path) -> None:
    done = fleet.run("cp", "--slice", "pair", tree / "blob", f":{tmp_path}/no/such/place")
    assert done.returncode == 1
    assert f"pair-w[0-1] (2) | there is no folder {tmp_path}/no/such\n" in done.stderr
    assert "0 of 2 ok; exit status 1: pair-w[0-1]" in done.stderr
    done = fleet.run("cp", "solo:/no/such/file", tmp_path / "got")
    assert done.returncode == 1
    assert "there is no /no/such/file" in done.stderr
    assert not (tmp_path / "got").exists()
    assert not list(tmp_path.glob(".tpu-fleet-half*"))


@pytest.mark.parametrize(
    "words",
    [
        [":/a", ":/b"],
        # Each starts the program; what they come to is the same.
        *(
            pytest.param(words, marks=pytest.mark.night)
            for words in (["a"], ["a", "b"], ["a", ":/b", ":/c"])
        ),
    ],
)
def test_what_is_not_a_copy(fleet: Fleet, words: list[str]) -> None:
    done = fleet.run("cp", *words)
    assert done.returncode == 2
    assert "Usage" in done.stderr


@pytest.fixture
def wire(farm: Farm, tmp_path: Path, ending: Callable[..., None]) -> tuple[Fleet, Relay]:
    """A fleet of one worker, behind a wire that can be cut."""
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    solo = fleet.groups["tpu"]["solo"]
    relay = Relay("127.77.12.1", (solo["ansible_host"], solo["tpu_vm_ssh_options"]["Port"]))
    ending(relay)
    solo["ansible_host"], solo["tpu_vm_ssh_options"]["Port"] = relay.address, relay.port
    fleet.write()
    assert fleet.run("exec", "--", "true").returncode == 0
    return fleet, relay


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_an_upload_that_breaks_leaves_nothing(
    wire: tuple[Fleet, Relay], tmp_path: Path, how: str
) -> None:
    """It is broken while it runs: the file is larger than what any buffer or minute can hold."""
    fleet, relay = wire
    there = tmp_path / "there"
    there.mkdir()
    (there / "big").write_text("before")
    big = tmp_path / "big"
    with big.open("wb") as stream:
        stream.truncate(200_000_000_000)
    process = fleet.start("cp", big, f":{there}")

    def begun() -> bool:
        halves = list(there.glob(".tpu-fleet-half.*/big"))
        return any(half.stat().st_size > 1_000_000 for half in halves)

    wait_for(begun, "nothing came")
    if how == "cut":
        relay.cut()
    else:
        process.kill()
    _out, err = process.communicate(timeout=120)
    if how == "cut":
        assert process.returncode == 2
        assert "solo: cut: the connection was lost" in err
    wait_for(lambda: [path.name for path in there.iterdir()] == ["big"], "something half is there")
    assert (there / "big").read_text() == "before"


def test_a_download_that_breaks_leaves_nothing(wire: tuple[Fleet, Relay], tmp_path: Path) -> None:
    fleet, relay = wire
    # An archive without end.
    source = tmp_path / "endless"
    with source.open("wb") as stream:
        stream.truncate(200_000_000_000)
    got = tmp_path / "got"
    process = fleet.start("cp", f":{source}", got)
    archive = "solo/.tpu-fleet-half.*/archive"
    wait_for(lambda: any(p.stat().st_size > 1_000_000 for p in got.glob(archive)), "nothing came")
    relay.cut()
    _out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "solo: cut" in err
    assert list((got / "solo").iterdir()) == []


def hostile(folder: Path, outside: Path) -> bytes:
    """Make an archive that tries to get out of the folder it is unpacked in."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:

        def add(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", text: str = "x") -> None:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, link, 0o6777
            info.size = len(text) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)

        add("good")
        add("../up")
        add(f"{outside}/absolute")
        add("door", tarfile.SYMTYPE, str(outside))
        add("door/through")
        add("sub/back", tarfile.SYMTYPE, "..")
        add("way", tarfile.SYMTYPE, "sub/back/../..")
        add("twin", tarfile.LNKTYPE, f"{outside}/target")
        add("device", tarfile.CHRTYPE)
        add("pipe", tarfile.FIFOTYPE)
    return data.getvalue()


def test_a_worker_in_other_hands_cannot_write_where_it_likes(fleet: Fleet, tmp_path: Path) -> None:
    """Its tar answers with whatever it likes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("mine")
    (tmp_path / "archive").write_bytes(hostile(tmp_path, outside))
    # Its own tar is what such a worker would replace; here, all workers share this computer's.
    evil = tmp_path / "bin"
    evil.mkdir()
    (evil / "tar").write_text(f"#!/bin/sh\ncat {tmp_path}/archive\n")
    (evil / "tar").chmod(0o755)
    got = tmp_path / "got"
    path = f"{evil}:/usr/bin:/bin"
    program = (
        "import sys; from tpu_fleet.commands import cp as c; from tpu_fleet.cli import main; "
        f"plain = c.pack_command; c.pack_command = lambda *a: 'export PATH={path}; ' + plain(*a); "
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        (sys.executable, "-c", program, "cp", "--slice", "solo", f":{outside}", str(got)),
        cwd=fleet.folder,
        env=fleet.environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "mine"
    solo = got / "solo"
    assert sorted(path.name for path in got.iterdir()) == ["solo"]
    assert sorted(path.name for path in solo.iterdir()) == ["door", "good", "sub"]
    assert (solo / "door" / "through").read_text() == "x"
    assert not (solo / "door").is_symlink()
    assert stat.S_IMODE((solo / "good").stat().st_mode) == 0o777
    assert (solo / "sub" / "back").readlink() == Path("..")
    for name in ("../up", f"{outside}/absolute", "way", "twin", "device", "pipe"):
        assert f"left out '{name}'" in done.stderr, name
