"""Commands of `tpu-fleet`: one file for each, and the code that several share.

May import: contract, begin, workers, show, on_worker, history, page, queue, why.
"""
