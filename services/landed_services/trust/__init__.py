"""Whether a contract can be trusted: checked by its text, drilled at a provider, and swept against what a provider shows."""
