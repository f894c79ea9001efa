"""The fleet's page: one file of HTML that asks nobody for anything, from the history.

May import: history, show, workers.
"""
