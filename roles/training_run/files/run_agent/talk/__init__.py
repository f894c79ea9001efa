"""What the agent sends and receives: messages in the gang, events of the run, a line for systemd.

May import: act, decide.
"""
