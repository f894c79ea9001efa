"""The parts of a fleet that `apply --only` names, and the playbooks that apply them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A part of what the fleet file declares."""

    roles: tuple[str, ...] = ()
    """Its roles, after those that they need on the machine."""
    playbook: str = "configure"
    first: str = ""
    """The playbook that makes what it needs around the machines."""


TRAIN = ("env_secrets", "code_checkout", "dataset", "python_env", "training_run", "run_queue")
PARTS = {
    "slices": Part(playbook="provision"),
    "base": Part(("host_base",)),
    "users": Part(("user_accounts",)),
    "shells": Part(("user_accounts", "user_shell")),
    "disks": Part(("data_disk",), first="disks"),
    "shares": Part(("nfs_share",)),
    "buckets": Part(("bucket_mount",)),
    "datasets": Part(("env_secrets", "dataset")),
    "git": Part(("git_access",)),
    "secrets": Part(("env_secrets",)),
    "code": Part(("code_checkout",)),
    # Environments install the requirements of the code.
    "venvs": Part(("code_checkout", "python_env")),
    "runs": Part(TRAIN, playbook="train"),
    "notebooks": Part(("notebook_server",)),
    "boards": Part(("tensorboard_server",)),
    "metrics": Part(("tpu_metrics",)),
    "ray": Part(("ray_cluster",)),
}


@dataclass(frozen=True)
class Step:
    """A playbook, and the roles that it applies; all of its roles without any."""

    playbook: str
    tags: tuple[str, ...] = ()


def steps_of(names: Iterable[str]) -> list[Step]:
    """Return the playbooks for these parts, in the order in which one needs the other."""
    wanted = [PARTS[name] for name in PARTS if name in set(names)]
    trains = any(part.playbook == "train" for part in wanted)
    # What the playbook of the runs applies, too, is not applied twice.
    covered = set(TRAIN) if trains else set()
    roles = [role for part in wanted if part.playbook == "configure" for role in part.roles]
    tags = tuple(dict.fromkeys(role for role in roles if role not in covered))
    firsts = [Step(part.first) for part in wanted if part.first]
    slices = [Step("provision")] if any(part.playbook == "provision" for part in wanted) else []
    return [
        *slices,
        *firsts,
        *([Step("configure", tags)] if tags else []),
        *([Step("train")] if trains else []),
    ]
