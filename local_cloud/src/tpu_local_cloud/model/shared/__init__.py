"""What both APIs have: records, time, faults, history, places, networks, and what is kept.

May import: nothing.
"""
