"""Compute Engine, as far as TPUs need it: what it offers, instances, groups, policies, templates.

May import: compute_errors, errors, google, model, payload, tables, tpu_api.
"""
