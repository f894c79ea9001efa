"""Google's other APIs, as far as needed: Compute, Service Usage, IAM, projects, buckets.

May import: compute_errors, errors, model, tpu_api.
"""
