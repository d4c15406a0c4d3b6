"""What people decide: reviews, approvals, policies. Each decision is an event; the log's fold says whether it holds.

Command line, gateway and console are faces of this package.
"""
