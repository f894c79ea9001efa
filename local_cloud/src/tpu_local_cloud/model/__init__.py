"""State of a local cloud, and its changes: nodes, queue, operations, time, faults.

May import: compute_errors, errors, machines, tables.
"""
