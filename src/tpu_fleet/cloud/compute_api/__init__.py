"""Compute Engine for TPUs: its offers, instances, groups, templates, policies, reservations.

May import: compute_errors, errors, google, model, tpu_api.
"""
