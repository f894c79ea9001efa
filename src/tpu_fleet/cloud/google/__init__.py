"""What the fleet needs of Google's other APIs: Compute, Service Usage, IAM, projects, buckets.

May import: compute_errors, errors, model, tpu_api.
"""
