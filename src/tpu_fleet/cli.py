"""The command `tpu-fleet`."""

from __future__ import annotations

import click

from .allocation import allocation
from .cloud.command import cloud
from .doctor import doctor
from .status import status
from .tunnel import tunnel


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tpu-fleet", prog_name="tpu-fleet")
def main() -> None:
    """Turn Google Cloud TPU VMs into training machines that look after themselves."""


main.add_command(allocation)
main.add_command(cloud)
main.add_command(doctor)
main.add_command(status)
main.add_command(tunnel)
