"""Properties of this computer, and what it lacks for system containers."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .base import MachineError

Progress = Callable[[str], None]

CAP_SYS_RESOURCE = 24
_EVERYWHERE = {"podman": "podman", "conmon": "conmon", "runc": "runc", "nft": "nftables"}
# program -> package, by family of distributions
_PACKAGES: dict[str, dict[str, str]] = {
    "debian": {
        **_EVERYWHERE,
        "ip": "iproute2",
        "nsenter": "util-linux",
        "ssh": "openssh-client",
        "mmdebstrap": "mmdebstrap",
    },
    "fedora": {
        **_EVERYWHERE,
        "ip": "iproute",
        "nsenter": "util-linux-core",
        "ssh": "openssh-clients",
    },
    "arch": {**_EVERYWHERE, "ip": "iproute2", "nsenter": "util-linux", "ssh": "openssh"},
}
_INSTALL: dict[str, list[str]] = {
    "debian": ["apt-get", "install", "--yes", "--no-install-recommends"],
    "fedora": ["dnf", "install", "--assumeyes"],
    "arch": ["pacman", "--sync", "--noconfirm"],
}


@dataclass(frozen=True)
class HostFacts:
    """Properties of the computer that decide how machines are run."""

    system: str
    uid: int
    distribution: str
    like: tuple[str, ...]
    codename: str
    cgroup_type: str
    """File system type at /sys/fs/cgroup: `cgroup2` where there is nothing but version 2."""
    systemd: bool
    capabilities: int
    nofile: int
    nproc: int

    @property
    def family(self) -> str | None:
        """Return the family of distributions, if its package names are known."""
        for name in (self.distribution, *self.like):
            for family in _PACKAGES:
                if name == family or (family == "fedora" and name in ("rhel", "centos")):
                    return family
        return None


@dataclass(frozen=True)
class EngineSettings:
    """How to call podman on a computer."""

    private_cgroups: bool
    """Run everything in a separate mount namespace, whose only cgroup tree is version 2."""
    runtime: str | None
    ulimits: tuple[str, ...]
    cgroup_manager: str


def read_facts() -> HostFacts:
    """Inspect this computer."""
    release: dict[str, str] = {}
    if platform.system() == "Linux":
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            release = {}
    limit_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit_tasks = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return HostFacts(
        system=platform.system(),
        uid=os.geteuid(),
        distribution=release.get("ID", ""),
        like=tuple(release.get("ID_LIKE", "").split()),
        codename=release.get("VERSION_CODENAME", ""),
        cgroup_type=_file_system("/sys/fs/cgroup"),
        systemd=Path("/run/systemd/system").is_dir(),
        capabilities=_capabilities(),
        nofile=limit_files,
        nproc=limit_tasks,
    )


def _file_system(path: str) -> str:
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    types = [fields[2] for line in lines if (fields := line.split())[1] == path]
    return types[-1] if types else ""


def _capabilities() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0


def engine_settings(facts: HostFacts) -> EngineSettings:
    """Decide how to call podman."""
    hybrid = facts.cgroup_type != "cgroup2"
    limited = not facts.capabilities >> CAP_SYS_RESOURCE & 1
    ulimits: tuple[str, ...] = ()
    if limited:
        # podman asks for more than it may have when it cannot raise its own hard limits.
        files = 20000 if facts.nofile < 0 else min(facts.nofile, 20000)
        tasks = 32768 if facts.nproc < 0 else min(facts.nproc, 32768)
        ulimits = (f"nofile={files}:{files}", f"nproc={tasks}:{tasks}")
    return EngineSettings(
        private_cgroups=hybrid,
        # crun refuses hybrid cgroups, and its eBPF device filter needs RLIMIT_MEMLOCK raised.
        runtime="runc" if hybrid or limited else None,
        ulimits=ulimits,
        cgroup_manager="systemd" if facts.systemd and not hybrid else "cgroupfs",
    )


def missing_programs(
    facts: HostFacts, which: Callable[[str], str | None] = shutil.which
) -> list[str]:
    """Return the programs that the machines need and this computer does not have."""
    wanted = set(_PACKAGES[facts.family or "debian"])
    if facts.family != "debian":
        wanted.discard("mmdebstrap")
    if engine_settings(facts).runtime != "runc":
        wanted.discard("runc")
    return sorted(program for program in wanted if which(program) is None)


def install_command(facts: HostFacts, programs: Sequence[str]) -> list[str] | None:
    """Return the command that installs `programs`, or None for an unknown distribution."""
    if facts.family is None:
        return None
    packages = _PACKAGES[facts.family]
    names = sorted({packages[program] for program in programs if program in packages})
    return [*_INSTALL[facts.family], *names]


def explain_missing(facts: HostFacts, programs: Sequence[str]) -> str:
    """Return the text that says what a person has to install."""
    command = install_command(facts, programs)
    lines = [f"The machines need programs that are not installed: {', '.join(programs)}."]
    if command:
        lines.append(f"Install them with: {' '.join(command)}")
    else:
        for family, packages in _PACKAGES.items():
            names = sorted({packages[p] for p in programs if p in packages})
            lines.append(f"On {family} the packages are: {' '.join(names)}")
    return "\n".join(lines)


def refusal(facts: HostFacts, *, machines: bool = True) -> str | None:
    """Return why this computer cannot have a local cloud, or this user no machines, or None."""
    if facts.system != "Linux":
        return (
            "The local cloud needs Linux: its machines are containers, and its API asks the kernel "
            f"who connects. This computer runs {facts.system}. Use a virtual machine with Linux."
        )
    if machines and facts.uid != 0:
        return (
            "Machines need root: for network bridges, name spaces and mounts. "
            "Run the command with sudo, or use --hosts none for the API alone."
        )
    return None


def install(facts: HostFacts, programs: Sequence[str], progress: Progress) -> None:
    """Install what is missing with the distribution's package manager."""
    command = install_command(facts, programs)
    if command is None:
        raise MachineError(explain_missing(facts, programs))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if facts.family == "debian":
        progress("Refreshing the package lists (apt-get update)")
        run(["apt-get", "-o", "DPkg::Lock::Timeout=300", "update", "-qq"], env=environment)
        command[1:1] = ["-o", "DPkg::Lock::Timeout=300", "-qq"]
    progress(f"Installing: {' '.join(programs)}")
    run(command, env=environment)


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    timeout: float | None = 600,
) -> str:
    """Run a program and return its output; an error contains its messages."""
    try:
        done = subprocess.run(
            list(command),
            check=False,
            capture_output=True,
            text=True,
            env=env,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            timeout=timeout,
        )
    except FileNotFoundError as error:
        raise MachineError(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"no end after {timeout:g} s: {' '.join(command)}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise MachineError(f"{' '.join(command)}: exit {done.returncode}: {said}")
    return done.stdout
