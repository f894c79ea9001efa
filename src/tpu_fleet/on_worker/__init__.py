"""What runs on the workers, under their own Python (3.8 or later) and with nothing beside it.

The texts of these modules are sent over the line by `worker_program.py`, in the order of MODULES.
`how_it_stands` is a link to what playbooks have workers run: the collection is there without us.

May import: nothing.
"""

MODULES = ("how_it_stands", "log_files", "log_places", "run_reader")
