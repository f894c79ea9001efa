"""The queue of submitted runs, from this computer: what is submitted, signed, and what waits.

May import: show, workers.
"""
