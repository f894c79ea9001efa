"""The command of the agent: as root, make places and read secrets; then stage as another user."""

from __future__ import annotations

import argparse
import grp
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .act.as_user import UserError, take_rights
from .act.dataset_place import ACCOUNT, STATUS, Place
from .agent import Agent
from .decide.config import Config, Dataset, config_of
from .decide.source import HUB, BadSource, source_of

_SECRETS_SECONDS = 60.0
TOKEN = "HF_TOKEN"  # noqa: S105 - a name
# What of the machine's environment counts: its authorities, and its proxies.
_KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def main(argv: list[str]) -> int:
    """Stage what the configuration says."""
    parser = argparse.ArgumentParser(prog="tpu_fleet_datasets.py", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("/etc/tpu-fleet/datasets.json"))
    parser.add_argument("--key", type=Path, default=Path("/etc/tpu-fleet/datasets.key"))
    parser.add_argument("--status", type=Path, default=STATUS)
    parser.add_argument("--account", default=ACCOUNT)
    program = Path("/opt/tpu-fleet/tpu_fleet_secrets.py")
    parser.add_argument("--secrets-program", type=Path, default=program)
    options = parser.parse_args(argv)
    key = options.key.read_text(encoding="ascii").strip() if options.key.exists() else ""
    told = json.loads(options.config.read_text(encoding="utf-8"))
    account = pwd.getpwnam(options.account)
    agent = prepared(config_of(told, key), account, options.status, options.secrets_program)
    environment = machines(os.environ)
    take_rights(account)
    os.environ.update(environment)
    return agent.run()


def machines(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the machine that the agent keeps."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or name.lower() in _PROXIES
    }


def prepared(
    config: Config, account: pwd.struct_passwd, status: Path, secrets_program: Path
) -> Agent:
    """Make the places of all data sets, as root, and read their secrets; return the agent."""
    status.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.chown(status, account.pw_uid, account.pw_gid)
    blocked: dict[str, str] = {}
    tokens: dict[str, str] = {}
    for dataset in config.datasets:
        try:
            Place(dataset.path).prepare(account, _group_of(dataset))
            if config.is_first or not config.passes_on:
                tokens[dataset.name] = _token(dataset, secrets_program)
        except (OSError, UserError) as error:
            blocked[dataset.name] = str(error)
    agent = Agent(replace(config, tokens=tokens), status)
    agent.blocked = blocked
    agent.listen()
    return agent


def _group_of(dataset: Dataset) -> int | None:
    """Return the group that alone may read a data set; None if all may."""
    if not dataset.user:
        return None
    try:
        gid = pwd.getpwnam(dataset.user).pw_gid
        return grp.getgrgid(gid).gr_gid
    except KeyError:
        raise UserError(f"user = {dataset.user!r} is not a user of this host") from None


def _token(dataset: Dataset, program: Path) -> str:
    """Return the hub's token out of the sets of secrets; raise UserError."""
    try:
        is_of_hub = source_of(dataset.source).kind == HUB
    except BadSource as error:
        raise UserError(str(error)) from None
    if not dataset.secrets or not is_of_hub:
        return ""
    words = [sys.executable, "-I", str(program), "json", "--user", dataset.user]
    try:
        done = subprocess.run(
            [*words, *dataset.secrets],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECRETS_SECONDS,
            check=False,
        )
        found = str(json.loads(done.stdout or "{}").get(TOKEN) or "")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UserError(f"its secrets cannot be read: {type(error).__name__}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise UserError(lines[-1] if lines else "its secrets cannot be read")
    if not found or not found.isascii() or not found.isprintable():
        raise UserError(f"the secrets {', '.join(dataset.secrets)} have no {TOKEN}")
    return found
