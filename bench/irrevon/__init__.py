"""IrrevonBench, written by others, over the real product: 72 trials of seven faults, judged by the provider's own records.

Two processes that never import each other: the harness (`__main__`, `arm`, `bridge`, `product`, `play`, `table`) runs in an
environment that holds `irrevon` alone, the product (`stage`, `agent`, `tools`) in the project's own. Between them: JSON lines,
and HTTP for what reaches the provider.
"""
