"""What a local cloud knows, and how that changes: nodes, queue, operations, time, faults.

May import: compute_errors, errors, machines.
"""
