"""`tpu-fleet cloud …`: the commands of the local cloud, if it is installed.

The local cloud is a distribution of its own, and this is the only file that imports it.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import click

from .ports import free

ABSENT = "The local cloud is not installed: pip install 'tpu-fleet[local-cloud]'"
ENDPOINT, PROJECT = "http://127.0.0.1:8470/", "local-project"
CHOSEN = "TPU_FLEET_CLOUD_DIR"
"""Which of several clouds of a user is meant."""
NAMED = "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"
"""What `env` of the local cloud prints."""


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True}, hidden=True
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def absent(words: tuple[str, ...]) -> None:
    """Refuse whatever is asked of a local cloud that is not installed."""
    raise click.ClickException(ABSENT)


def cloud_of_this_shell() -> tuple[str, str]:
    """Return endpoint and project of the local cloud that this shell uses, up or not.

    A cloud that is not there yet gets the next free port where the default one is taken.
    """
    try:
        from tpu_local_cloud.commands.lifecycle import Cloud, default_state_dir
    except ModuleNotFoundError as error:
        _only_if_absent(error)
        return os.environ.get(NAMED) or ENDPOINT, os.environ.get("CLOUDSDK_CORE_PROJECT") or PROJECT
    cloud = Cloud(default_state_dir())
    if cloud.config or os.environ.get(NAMED):
        return cloud.endpoint, str((cloud.config or {}).get("project") or PROJECT)
    return endpoint_of_new(ENDPOINT), PROJECT


def endpoint_of_new(default: str) -> str:
    """Return the endpoint of a cloud of this shell that is not there yet.

    It is the default one if nothing is there, or a cloud that this user may use, as one started
    by sudo; otherwise that of the next free port.
    """
    port = urlsplit(default).port or 0
    if free(port) or (not os.environ.get(CHOSEN) and _is_cloud(default)):
        return default
    other = next(filter(free, range(port + 1, 1 << 16)), port)
    return f"http://127.0.0.1:{other}/"


def _is_cloud(endpoint: str) -> bool:
    # Not at the top, because the commands of the local cloud start without it.
    import requests

    try:
        return requests.get(f"{endpoint}_cloud/state", timeout=5).ok
    except requests.RequestException:
        return False


def _commands() -> click.Command:
    try:
        from tpu_local_cloud.commands.cloud import cloud
    except ModuleNotFoundError as error:
        _only_if_absent(error)
        return absent
    return cloud


def _only_if_absent(error: ModuleNotFoundError) -> None:
    """Raise the error if the local cloud is installed, and something that it needs is not."""
    if error.name != "tpu_local_cloud":
        raise error


cloud = _commands()
