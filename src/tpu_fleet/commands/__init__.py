"""The commands of `tpu-fleet`: a file for each, and what several share.

May import: workers, show, on_worker.
"""
