"""The queue of submitted runs, from this computer: what is frozen, signed, submitted, what waits.

May import: show, workers.
"""
