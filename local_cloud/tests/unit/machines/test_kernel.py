"""What machines with a kernel of their own are run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpu_local_cloud.machines.base import MachineError, MachineSpec
from tpu_local_cloud.machines.kernel import container_words, mirror, wants_reboot
from tpu_local_cloud.machines.layout import Layout
from tpu_local_cloud.machines.network import Network, bridge_words

DEB822 = """Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


def test_the_kernel_comes_from_where_the_computer_gets_its_packages() -> None:
    assert mirror({"debian.sources": DEB822}, "bookworm") == "http://mirror.example/debian"
    lines = "deb http://a.example x main\ndeb [arch=amd64] http://b.example bookworm main\n"
    assert mirror({"sources.list": lines}, "bookworm") == "http://b.example"


def test_without_such_a_source_it_says_so() -> None:
    with pytest.raises(MachineError, match="need Debian"):
        mirror({"sources.list": "deb http://a.example noble main\n"}, "bookworm")


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr("tpu_local_cloud.machines.layout.SHARED_RUN", tmp_path)
    layout = Layout(tmp_path / "cloud")
    layout.authority.parent.mkdir(parents=True)
    layout.authority.write_text("its authority")
    return layout


def test_the_kernel_learns_the_machines_address_from_its_command_line(layout: Layout) -> None:
    spec = MachineSpec("t1v-n-12345678-w-0", "z", "1", 0, "10.99.0.2", own_kernel=True)
    network = Network("abcdef", "10.99.0.0/16", 8471)
    words = container_words(layout, network, spec, Path("/k"), Path("/d"))
    kernel = words[words.index("/usr/bin/linux.uml") :]
    assert "tpuvm.address=10.99.0.2/17" in kernel
    assert "tpuvm.gateway=10.99.0.1" in kernel
    assert any("mac=02:00:0a:63:00:02" in word for word in kernel)
    assert (layout.run_dir / f"{spec.machine_id}.uml/authority.pem").read_text() == "its authority"
    # Not the same twice on one bridge.
    assert any("02:01:0a:63:00:02" in line for line in bridge_words("10.99.0.2"))


@pytest.mark.parametrize(
    ("word", "again"), [("reboot\n", True), ("poweroff\n", False), (None, False)]
)
def test_only_a_machine_that_said_so_is_booted_again(
    layout: Layout, word: str | None, again: bool
) -> None:
    folder = layout.run_dir / "m.uml"
    folder.mkdir(parents=True)
    if word:
        (folder / "last-word").write_text(word)
    assert wants_reboot(layout, "m") is again
    assert wants_reboot(layout, "m") is False, "it counts once"
