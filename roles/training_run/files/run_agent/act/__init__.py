"""What is seen and done on this machine: processes, tmux, files, also as the user of the run.

May import: decide.
"""
