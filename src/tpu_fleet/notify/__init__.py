"""Tell people what happens to a fleet: messages, their forms, limits, and the ways they go.

May import: nothing.
"""
