"""What one durable effect costs, and how fast the view is rebuilt: `make bench`. Method: docs/performance.md."""
