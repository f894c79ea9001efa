"""Cloud Storage: the JSON API and the XML API over the buckets of the model.

May import: compute_errors, errors, google, model, payload, tpu_api.
"""
