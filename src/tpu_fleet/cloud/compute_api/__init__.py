"""Compute Engine's TPUs: instances, groups of instances, and what they are made from.

May import: compute_errors, errors, google, model, tpu_api.
"""
