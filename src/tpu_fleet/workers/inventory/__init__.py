"""The workers of a fleet: where they are listed, their names, and what the API says of them.

May import: nothing.
"""
