"""`python -m tpu_fleet` is `tpu-fleet`."""

from .cli import main

main()
