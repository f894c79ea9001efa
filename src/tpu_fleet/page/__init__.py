"""The fleet's page: one self-contained HTML file, made of the history.

May import: history, show, workers.
"""
