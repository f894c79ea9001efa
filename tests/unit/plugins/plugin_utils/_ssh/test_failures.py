from __future__ import annotations

import errno
import socket
import subprocess
import sys
from dataclasses import replace

import asyncssh
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import (
    BEGUN,
    ELSEWHERE,
    ConnectionProgress,
    Kind,
    LocalTrouble,
    failure_of,
)

SEEN = ConnectionProgress(
    address="10.0.0.1", user="ubuntu", key_name="tpu.1.0", waited=15.2, keys="/key"
)
TCP = replace(SEEN, connected=True)
SSH = replace(TCP, greeted=True)
RUNS = replace(SSH, begun=True)
PROXY = replace(SEEN, proxy=True, proxy_said="no such instance")


@pytest.mark.parametrize(
    ("error", "seen", "kind", "says"),
    [
        (ConnectionRefusedError(111, "refused"), SEEN, Kind.REFUSED, "10.0.0.1 refuses"),
        (OSError(errno.EHOSTUNREACH, "No route"), SEEN, Kind.UNREACHABLE, "No route"),
        (socket.gaierror(-2, "unknown"), SEEN, Kind.UNREACHABLE, "the name 10.0.0.1"),
        (TimeoutError(), SEEN, Kind.UNREACHABLE, "does not answer after 15 s"),
        (TimeoutError(), TCP, Kind.SILENT, "takes connections, but no SSH server answers"),
        (TimeoutError(), SSH, Kind.SILENT, "did not finish the login after 15 s"),
        (TimeoutError(), RUNS, Kind.TIMEOUT, "not done after 15 s"),
        (ConnectionResetError(104, "reset"), TCP, Kind.CLOSED, "closed the connection before"),
        (asyncssh.ConnectionLost("gone"), SSH, Kind.CLOSED, "before the login: gone"),
        (asyncssh.ConnectionLost("gone"), RUNS, Kind.CUT, "while the command ran: gone"),
        (ConnectionResetError(104, "reset"), RUNS, Kind.CUT, "while the command ran: reset"),
        (asyncssh.PermissionDenied("no"), SSH, Kind.AUTH, "ubuntu may not log in with /key"),
        (asyncssh.HostKeyNotVerifiable("no"), SSH, Kind.HOST_KEY, "it is another machine"),
        (
            asyncssh.HostKeyNotVerifiable("no"),
            replace(SSH, key_known=False),
            Kind.HOST_KEY,
            "no host key is known for tpu.1.0",
        ),
        (
            asyncssh.KeyExchangeFailed("No matching host key algorithm found"),
            SSH,
            Kind.HOST_KEY,
            "it is another machine",
        ),
        (
            asyncssh.KeyExchangeFailed("No matching key exchange algorithm found"),
            SSH,
            Kind.CLOSED,
            "key exchange",
        ),
        (asyncssh.ChannelOpenError(1, "full"), SSH, Kind.CLOSED, "starts no command: full"),
        (asyncssh.ProtocolError("odd"), SSH, Kind.CLOSED, "gave up: odd"),
        (asyncssh.ConnectionLost("gone"), PROXY, Kind.PROXY, "no such instance"),
        (TimeoutError(), PROXY, Kind.PROXY, "no answer through the proxy"),
        (LocalTrouble("no key", "ssh-add"), SEEN, Kind.LOCAL, "no key"),
        (OSError(errno.EMFILE, "many"), SEEN, Kind.LOCAL, "no room for another open file"),
        (OSError(errno.EMFILE, "many"), RUNS, Kind.LOCAL, "no room for another open file"),
        (KeyError("odd"), SEEN, Kind.LOCAL, "KeyError: 'odd'"),
    ],
)
def test_what_goes_wrong(error, seen, kind, says):
    failure = failure_of(error, seen)
    assert failure.kind is kind
    assert says in failure.says
    assert failure.remedy


def test_nothing_that_may_have_begun_is_tried_again():
    assert not BEGUN & ELSEWHERE
    assert {Kind.AUTH, Kind.LOCAL, Kind.UNAVAILABLE}.isdisjoint(BEGUN | ELSEWHERE)
    assert len(BEGUN | ELSEWHERE) == len(Kind) - 3


def test_what_waits_for_logins_does_not_import_asyncssh(import_env: dict[str, str]) -> None:
    # It takes a quarter of a second, of each playbook.
    program = f"import sys, {failure_of.__module__}; print('asyncssh' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=import_env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "False\n"
