"""The engine against real SSH servers, and against what else may answer at an address."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Channel,
    Result,
    Settings,
    fan_out,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target
from ports import free_port
from sshd import Farm, Relay, Sockets, Sshd, make_key

QUICK = Settings(connect_timeout=60)
LONG = "sleep 3600"


def collect(targets: list[Target], command: Any, **more: Any) -> dict[str, Result]:
    """Run it; every host has exactly one result."""

    async def all_of() -> list[Result]:
        async with asyncio.timeout(300):
            return [result async for result in fan_out(targets, command, **more)]

    results = asyncio.run(all_of())
    assert sorted(result.name for result in results) == sorted(target.name for target in targets)
    return {result.name: result for result in results}


def changed(target: Target, **changes: Any) -> Target:
    return dataclasses.replace(target, **changes)


def test_64_hosts_one_connection_and_one_command_each(farm: Farm) -> None:
    before = farm.logins(), farm.sessions()
    results = collect(farm.targets(), lambda target: f"echo {target.name}", settings=QUICK)
    assert {name: result.stdout for name, result in results.items()} == {
        f"w{number}": f"w{number}\n".encode() for number in range(64)
    }
    assert all(result.ok for result in results.values())
    assert (farm.logins() - before[0], farm.sessions() - before[1]) == (64, 64)


@pytest.mark.parametrize("kex", ["default", "cheap"])
def test_a_key_exchange_that_the_host_has_is_found(farm: Farm, kex: Any) -> None:
    results = collect(farm.targets(1), "true", settings=Settings(kex=kex, connect_timeout=60))
    assert results["w0"].ok


def test_output_exit_status_and_signal(farm: Farm) -> None:
    commands = {
        "w0": "echo out; echo err >&2; exit 3",
        "w1": "kill -KILL $$",
        "w2": "exec 2>&1; no-such-program",
    }
    results = collect(farm.targets(3), lambda target: commands[target.name], settings=QUICK)
    first = results["w0"]
    assert (first.kind, first.exit_status, first.ok) == (Kind.DONE, 3, False)
    assert (first.stdout, first.stderr) == (b"out\n", b"err\n")
    assert results["w1"].exit_status == 137
    assert results["w2"].exit_status == 127


def test_much_on_both_streams_at_once(farm: Farm) -> None:
    """More than any window, on both, in turns: who reads only one of them stands still."""
    size = 8_000_000
    program = (
        "import os\n"
        f"for at in range({size} // 8000):\n"
        "    os.write(1, b'o' * 8000)\n    os.write(2, b'e' * 8000)\n"
    )
    got = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}
    results = collect(
        farm.targets(1),
        f"python3 -c {shlex.quote(program)}",
        on_output=lambda _host, stream, data: got[stream].update(data),
        settings=dataclasses.replace(QUICK, keep=1000),
    )
    assert results["w0"].ok
    assert results["w0"].truncated
    assert (results["w0"].stdout, results["w0"].stderr) == (b"o" * 1000, b"e" * 1000)
    for stream, letter in (("stdout", b"o"), ("stderr", b"e")):
        assert got[stream].digest() == hashlib.sha256(letter * size).digest()


def test_stdin_and_nothing_else_comes_to_the_command(farm: Farm) -> None:
    data = os.urandom(3_000_000)
    results = collect(farm.targets(4), "sha256sum", stdin=data, settings=QUICK)
    said = {result.stdout.split()[0].decode() for result in results.values()}
    assert said == {hashlib.sha256(data).hexdigest()}


def test_a_command_that_does_not_read_its_input_is_no_failure(farm: Farm) -> None:
    results = collect(farm.targets(1), "echo well", stdin=bytes(5_000_000), settings=QUICK)
    assert (results["w0"].ok, results["w0"].stdout) == (True, b"well\n")


def test_a_dialogue(farm: Farm) -> None:
    program = "read -r name; echo hello $name; read -r more; echo $more >&2; cat; exit 4"

    async def talk(channel: Channel) -> str:
        await channel.write(f"{channel.target.name}\n".encode())
        said = (await channel.readline()).decode().strip()
        await channel.write(b"aside\n" + b"x" * 1_000_000)
        assert await channel.readexactly(1000) == b"x" * 1000
        return said

    results = collect(farm.targets(8), program, talk=talk, settings=QUICK)
    for name, result in results.items():
        assert result.value == f"hello {name}"
        assert (result.kind, result.exit_status, result.stderr) == (Kind.DONE, 4, b"aside\n")


def test_a_command_that_cannot_be_made_is_the_result_of_its_host(farm: Farm) -> None:
    results = collect(farm.targets(2), lambda target: {"w0": "true"}[target.name], settings=QUICK)
    assert results["w0"].ok
    assert (results["w1"].kind, results["w1"].begun) == (Kind.LOCAL, False)
    assert "KeyError: 'w1'" in results["w1"].says


def test_a_host_that_says_nothing_any_more_holds_nobody_up(farm: Farm) -> None:
    settings = Settings(connect_timeout=60, silence=3.0)
    targets = farm.targets(2)

    def command(target: Target) -> str:
        # The other one is at work for longer than the limit, and says so.
        quiet = target.name == targets[0].name
        return "sleep 600" if quiet else "for i in 1 2 3 4 5; do echo $i; sleep 1; done"

    found = collect(targets, command, settings=settings)
    assert found[targets[0].name].exit_status is None
    assert found[targets[0].name].kind is not Kind.DONE
    assert found[targets[1].name].stdout == b"1\n2\n3\n4\n5\n"


def test_a_dialogue_that_fails_here_says_so(farm: Farm) -> None:
    async def talk(channel: Channel) -> None:
        if channel.target.name == "w1":
            raise OSError("the disk is full")

    results = collect(farm.targets(2), "cat", talk=talk, settings=QUICK)
    assert results["w0"].ok
    assert (results["w1"].kind, results["w1"].says) == (Kind.LOCAL, "the disk is full")


def test_a_dialogue_with_a_command_that_died_tells_of_the_command(farm: Farm) -> None:
    async def talk(channel: Channel) -> None:
        while True:
            await channel.write(bytes(1 << 16))

    results = collect(farm.targets(1), "echo no room >&2; exit 5", talk=talk, settings=QUICK)
    assert (results["w0"].exit_status, results["w0"].stderr) == (5, b"no room\n")


def test_the_end_of_a_commands_output_is_not_the_reason_that_its_dialogue_broke(farm: Farm) -> None:
    """Its exit status comes after it, on a busy worker much later."""

    async def talk(channel: Channel) -> None:
        if not await channel.readline():
            raise RuntimeError("the worker ended without a result")

    command = "echo no room >&2; exec <&- >&- 2>&-; sleep 0.5; exit 5"
    results = collect(farm.targets(1), command, talk=talk, settings=QUICK)
    assert (results["w0"].exit_status, results["w0"].stderr) == (5, b"no room\n")
    assert results["w0"].says == ""


def test_nobody_waits_for_those_who_do_not_answer(
    farm: Farm, tmp_path: Path, ending: Callable[..., None], authorized: str
) -> None:
    """Eight hosts, of which each but one has its own trouble; one place for attempts."""
    well, *rest = farm.targets(8)
    silent = Sockets("127.77.9.1")
    closing = Sockets("127.77.9.2", cut=True)
    babbling = Sockets("127.77.9.3", say=b"220 mail.example.com\r\n")
    ending(silent), ending(closing), ending(babbling)
    stranger = make_key(tmp_path / "stranger")
    (tmp_path / "other").write_text(f"{rest[5].key_name} {stranger}\n")
    targets = [
        changed(rest[0], address=silent.address, port=silent.port),
        changed(rest[1], address=closing.address, port=closing.port),
        changed(rest[2], address=babbling.address, port=babbling.port),
        changed(rest[3], address="127.77.9.4", port=free_port("127.77.9.4")),
        changed(rest[4], key_name="tpu.another.0"),
        changed(rest[5], known_hosts=(str(tmp_path / "other"),)),
        changed(rest[6], user="nobody-of-this-name"),
        well,
    ]
    before = farm.sessions()
    settings = Settings(connects=1, patience=0.5, connect_timeout=20)
    results = collect(targets, "echo here", settings=settings)
    assert {name: result.kind for name, result in results.items()} == {
        "w0": Kind.DONE,
        "w1": Kind.SILENT,
        "w2": Kind.CLOSED,
        "w3": Kind.SILENT,
        "w4": Kind.REFUSED,
        "w5": Kind.HOST_KEY,
        "w6": Kind.HOST_KEY,
        "w7": Kind.AUTH,
    }
    assert results["w0"].stdout == b"here\n"
    assert farm.sessions() - before == 1, "somebody else was given the command"
    assert "no SSH server answers" in results["w1"].says
    assert "no host key is known" in results["w5"].says
    assert "it is another machine" in results["w6"].says
    for name in set(results) - {"w0"}:
        assert results[name].says
        assert results[name].remedy
        assert not results[name].begun


def test_results_come_before_a_slow_host_is_done(farm: Farm, tmp_path: Path) -> None:
    """The slow one ends when the others' results are there: it would never end otherwise."""
    gate = tmp_path / "gate"
    wait = f"until [ -e {gate} ]; do sleep 0.1; done; echo slow"

    async def run() -> list[str]:
        names = []
        commands = {"w5": wait}
        stream = fan_out(
            farm.targets(16), lambda target: commands.get(target.name, "true"), settings=QUICK
        )
        async with asyncio.timeout(300):
            async for result in stream:
                assert result.ok
                names.append(result.name)
                if len(names) == 15:
                    gate.touch()
        return names

    names = asyncio.run(run())
    assert names[-1] == "w5"
    assert len(set(names)) == 16


def test_the_time_of_a_host_is_over(farm: Farm, tmp_path: Path) -> None:
    """The command is ended there; what it said is kept."""
    target = farm.targets(1)
    results = collect(
        target, f"echo begun; exec {LONG}", settings=Settings(timeout=20, connect_timeout=60)
    )
    assert results["w0"].kind is Kind.TIMEOUT
    assert results["w0"].stdout == b"begun\n"
    assert results["w0"].begun


def test_a_connection_that_is_cut_in_the_middle(farm: Farm, ending: Callable[..., None]) -> None:
    plain = farm.targets(2)
    relay = Relay("127.77.9.5", (plain[1].address, plain[1].port))
    ending(relay)
    targets = [plain[0], changed(plain[1], address=relay.address, port=relay.port)]
    commands = {"w0": "echo well", "w1": f"echo begun; exec {LONG}"}

    def on_output(host: str, _stream: str, data: bytes) -> None:
        if (host, data) == ("w1", b"begun\n"):
            relay.cut()

    results = collect(
        targets, lambda target: commands[target.name], on_output=on_output, settings=QUICK
    )
    assert results["w0"].ok
    assert (results["w1"].kind, results["w1"].exit_status) == (Kind.CUT, None)
    assert results["w1"].stdout == b"begun\n"
    assert results["w1"].remedy == "Look what it did before you run it again."


def test_who_stops_listening_ends_the_connections(farm: Farm) -> None:
    async def first() -> Result:
        stream = fan_out(
            farm.targets(4), lambda t: "echo first" if t.name == "w2" else LONG, settings=QUICK
        )
        async with asyncio.timeout(120):
            async for result in stream:
                await stream.aclose()
                return result
        raise AssertionError("no result")

    closed = sum(server.count("Disconnected from user") for server in farm.servers)
    assert asyncio.run(first()).stdout == b"first\n"
    for _try in range(100):
        now = sum(server.count("Disconnected from user") for server in farm.servers)
        if now - closed >= 1:
            break
        subprocess.run(("sleep", "0.1"), check=True)
    assert now - closed >= 1


def test_the_attempts_at_once_are_bounded(ending: Callable[..., None], farm: Farm) -> None:
    """Hosts that take a connection and say nothing hold their places: no more are called."""
    silent = Sockets("127.77.9.6")
    ending(silent)
    targets = [
        changed(target, address=silent.address, port=silent.port) for target in farm.targets(12)
    ]
    seen = []

    async def run() -> list[Result]:
        results = []
        settings = Settings(connects=3, patience=600, connect_timeout=2)
        async for result in fan_out(targets, "true", settings=settings):
            results.append(result)
            # Each that gave up lets one other try.
            seen.append(len(silent.taken))
        return results

    results = asyncio.run(run())
    assert {result.kind for result in results} == {Kind.SILENT}
    assert len(results) == len(silent.taken) == 12
    assert all(taken <= number + 3 + 3 for number, taken in enumerate(seen))


# Keys and trust


def test_an_encrypted_key_needs_an_agent(
    farm: Farm, tmp_path: Path, ending: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    public = make_key(locked, passphrase="secret")
    server = Sshd(tmp_path / "sshd", ["127.77.10.1"], public)
    ending(server)
    known = tmp_path / "known"
    known.write_text(f"tpu.locked.0 {server.host_key}\n")
    target = changed(
        farm.targets(1)[0],
        address="127.77.10.1",
        port=server.port,
        key_name="tpu.locked.0",
        known_hosts=(str(known),),
        identity_files=(str(locked),),
    )
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    result = collect([target], "true", settings=QUICK)["w0"]
    assert result.kind is Kind.LOCAL
    assert result.says == f"{locked} is encrypted, and no ssh-agent holds it"
    assert result.remedy == f"ssh-add {locked}"

    plain = tmp_path / "plain"
    plain.write_bytes(locked.read_bytes())
    plain.chmod(0o600)
    subprocess.run(
        ("ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", str(plain)), check=True
    )
    socket = tmp_path / "agent"
    agent = subprocess.Popen(("ssh-agent", "-D", "-a", str(socket)), stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        for _try in range(100):
            added = subprocess.run(("ssh-add", "-q", str(plain)), check=False, capture_output=True)
            if added.returncode == 0:
                break
            subprocess.run(("sleep", "0.1"), check=True)
        results = collect([target, changed(target, name="again")], "echo in", settings=QUICK)
        assert {result.stdout for result in results.values()} == {b"in\n"}
    finally:
        agent.terminate()
        agent.wait()


def test_a_key_that_is_missing_is_said_before_any_host_is_blamed(farm: Farm) -> None:
    before = farm.logins()
    targets = [changed(one, identity_files=("/no/key",)) for one in farm.targets(2)]
    targets = [changed(one, identity_agent="none") for one in targets]
    results = collect(targets, "true", settings=QUICK)
    assert {result.kind for result in results.values()} == {Kind.LOCAL}
    assert "/no/key cannot be read" in results["w0"].says
    assert farm.logins() == before


def test_a_first_contact_is_only_trusted_where_that_is_the_policy(
    farm: Farm, tmp_path: Path
) -> None:
    known = tmp_path / "folder" / "known"
    target = changed(farm.targets(1)[0], known_hosts=(str(known),), accept_new=True)
    assert collect([target], "true", settings=QUICK)["w0"].ok
    name, *_key = known.read_text().split()
    assert name == "tpu.w0.0"
    # What was written is what is asked for from now on.
    assert collect([changed(target, accept_new=False)], "true", settings=QUICK)["w0"].ok
    known.write_text(f"tpu.w0.0 {make_key(tmp_path / 'stranger')}\n")
    before = known.read_text()
    result = collect([target], "true", settings=QUICK)["w0"]
    assert result.kind is Kind.HOST_KEY
    assert known.read_text() == before


def test_an_address_is_never_what_a_key_is_trusted_for(farm: Farm, tmp_path: Path) -> None:
    """As CheckHostIP no: the key is filed under the address, the alias has none."""
    target = farm.targets(1)[0]
    known = tmp_path / "known"
    lines = [f"{target.address} ", f"[{target.address}]:{target.port} "]
    known.write_text("".join(f"{line}{farm.servers[0].host_key}\n" for line in lines))
    result = collect([changed(target, known_hosts=(str(known),))], "true", settings=QUICK)["w0"]
    assert result.kind is Kind.HOST_KEY


def test_through_a_proxy_command_that_also_talks(farm: Farm) -> None:
    """What it says on stderr must not get into the dialogue, and is shown when it fails."""
    target = farm.targets(1)[0]
    wire = (
        "import os, socket, sys, threading\n"
        "sys.stderr.write('WARNING: to increase the speed of the tunnel, install numpy\\n')\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while d := os.read(0, 65536): s.sendall(d)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while d := s.recv(65536): os.write(1, d)\n"
    )
    command = shlex.join(["python3", "-c", wire, target.address, str(target.port)])
    through = changed(target, address="192.0.2.1", proxy_command=command)
    broken = changed(target, name="broken", proxy_command="echo no such instance >&2; exit 1")
    results = collect([through, broken], "echo there", settings=QUICK)
    assert (results["w0"].ok, results["w0"].stdout) == (True, b"there\n"), results["w0"]
    assert results["broken"].kind is Kind.PROXY
    assert "no such instance" in results["broken"].says
