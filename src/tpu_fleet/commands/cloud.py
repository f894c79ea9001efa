"""`tpu-fleet cloud …`: the commands of the local cloud, if it is installed.

The local cloud is a distribution of its own, and this is the only file that imports it.
"""

from __future__ import annotations

import os

import click

ABSENT = "The local cloud is not installed: pip install 'tpu-fleet[local-cloud]'"
ENDPOINT, PROJECT = "http://127.0.0.1:8470/", "local-project"


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True}, hidden=True
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def absent(words: tuple[str, ...]) -> None:
    """Refuse whatever is asked of a local cloud that is not installed."""
    raise click.ClickException(ABSENT)


def cloud_of_this_shell() -> tuple[str, str]:
    """Return endpoint and project of the local cloud that this shell uses, up or not."""
    try:
        from tpu_local_cloud.commands.lifecycle import Cloud, default_state_dir
    except ModuleNotFoundError as error:
        _only_if_absent(error)
        # What `env` of the local cloud prints.
        endpoint = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU")
        return endpoint or ENDPOINT, os.environ.get("CLOUDSDK_CORE_PROJECT") or PROJECT
    cloud = Cloud(default_state_dir())
    return cloud.endpoint, str((cloud.config or {}).get("project") or PROJECT)


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
