"""What runs on the workers, under their own Python (3.8 or later) and with nothing beside it.

The texts of these modules are sent over the line by `worker_program.py`, in the order of MODULES.
"""

MODULES = ("statuses", "log_files", "log_places", "run_reader")
