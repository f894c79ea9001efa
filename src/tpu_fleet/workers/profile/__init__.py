"""Profiles of runs: recorded on all workers from one moment on, brought here, and summed up.

May import: ask.
"""
