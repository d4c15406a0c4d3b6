"""What was known when, what was true, and who decided: told from the log alone. Reads; holds no producer, loads no tool."""
