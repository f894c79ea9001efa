"""A machine that alice and mallory share, and what mallory does to it."""
