"""Google's other APIs, as far as needed: Compute, Service Usage, IAM, projects, buckets.

May import: compute_errors, errors, model, payload, tpu_api.
"""
