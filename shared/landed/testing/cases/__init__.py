"""Reported failures as tests: plays files of cases against the product's own code, in simulated time.

    python -m landed.testing.cases FILE…

`load` reads a file, `run` plays one case; the vocabulary stands in docs/cases.md.
"""

from landed.testing.cases.loading import Case, CasesError, cases_of, load
from landed.testing.cases.running import Outcome, run

__all__ = ["Case", "CasesError", "Outcome", "cases_of", "load", "run"]
