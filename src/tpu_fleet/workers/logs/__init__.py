"""Logs of runs, followed over reboots and attempts.

May import: archive, ask, inventory.
"""
