"""What the fleet needs of Google's other APIs: Compute, Service Usage, IAM, projects, buckets."""
