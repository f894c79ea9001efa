"""Code that runs on the workers, under their own Python (3.8 or later), with the stdlib only.

`worker_program.py` sends the texts of these modules over the connection, as ordered in MODULES,
PAST, VERBS, PORT, FOLDER or PROFILE. `limits` is the first of each program, and limits it before
anything is read. `run_states`, `run_end`, `runs`, `chip_holders`, `standing`, `listeners` and
`as_user` are links into the collection, whose modules run the same code.

May import: nothing.
"""

READ = ("limits", "run_states", "run_end", "runs", "chip_holders", "standing")
MODULES = (*READ, "log_files", "log_places", "run_reader")
PAST = (*MODULES, "as_user", "event_files", "past")
VERBS = (*MODULES, "run_verbs")
PORT = ("listeners", "service_port")
FOLDER = (*MODULES, "checkpoint_folder")
PROFILE = (*MODULES, "profiler")
