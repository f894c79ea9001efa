"""What is decided, and what that is decided on: no file, no process, no clock is touched here.

May import: nothing.
"""
