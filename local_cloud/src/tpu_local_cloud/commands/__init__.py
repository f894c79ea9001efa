"""Commands of `tpu-local-cloud`: start and stop a local cloud, and cause events in it.

May import: machines, model.
"""
