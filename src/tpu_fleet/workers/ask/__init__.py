"""Programs that run on many workers at once, and the answers about their runs.

May import: inventory.
"""
