"""History: what looks at the fleet have seen, kept in SQLite, and what it means for people.

May import: workers.
"""
