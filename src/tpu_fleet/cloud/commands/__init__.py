"""`tpu-fleet cloud`: bring a local cloud up and down, and have things happen in it.

May import: machines, model.
"""
