"""What the queue agents of a slice send each other, over the wire of the run agents.

May import: decide.
"""
