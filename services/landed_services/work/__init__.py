"""What services that work off the view share: bounded places for calls, budgets of providers, and the division among replicas."""
