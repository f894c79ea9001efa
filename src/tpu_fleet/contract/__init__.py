"""What programs may rely on: the forms of what `--json` prints, and the exit codes.

May import: nothing.
"""
