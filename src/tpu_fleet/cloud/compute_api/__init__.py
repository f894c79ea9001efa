"""Compute Engine, as far as TPUs need it: what it offers, policies, templates, reservations.

May import: compute_errors, errors, google, model, tpu_api.
"""
