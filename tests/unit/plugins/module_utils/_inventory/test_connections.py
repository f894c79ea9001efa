from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._inventory import connections


def test_only_the_cheap_key_exchange_names_algorithms() -> None:
    default = connections.connection_options()
    cheap = connections.connection_options("cheap")
    assert "KexAlgorithms" not in default
    assert cheap == {**default, "KexAlgorithms": ",".join(connections.CHEAP_KEX)}
    assert connections.asks_for_cheap(cheap["KexAlgorithms"])


@pytest.mark.parametrize(
    "algorithms",
    ["", "mlkem768x25519-sha256", "curve25519-sha256,mlkem768x25519-sha256", "+curve25519-sha256"],
)
def test_a_person_may_allow_more_than_what_is_cheap(algorithms: str) -> None:
    assert not connections.asks_for_cheap(algorithms)


def test_a_host_that_does_not_answer_costs_a_limited_time() -> None:
    options = connections.connection_options()
    assert int(options["ConnectTimeout"]) * int(options["ConnectionAttempts"]) <= 10
    assert int(options["ServerAliveInterval"]) * int(options["ServerAliveCountMax"]) <= 60


def test_the_path_of_a_socket_fits_into_what_the_kernel_takes() -> None:
    folder = connections.control_directory({"HOME": "/root"})
    longest = "0123456789-" + "u" * 32 + ".0123456789abcdef"
    assert len(str(folder / longest)) - len(str(folder.parents[2])) + len("/home/somebody") < 108
    told = connections.control_directory({"XDG_CACHE_HOME": "/c"})
    assert str(told) == "/c/tpu-fleet/ssh"
