"""Files that are copied to and from workers, as tar streams.

May import: nothing.
"""
