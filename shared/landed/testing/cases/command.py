"""`python -m landed.testing.cases FILE…`: one line a case, a summary, and an exit code.

C01  pass
C02  fail            state of A: failed instead of succeeded
C03  not supported   broker append: its content is told in prose, not in words of the vocabulary
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from landed.testing.cases.loading import Case, CasesError, load
from landed.testing.cases.running import Outcome, run

_EXAMPLES: Final = """examples:
  python -m landed.testing.cases cases.yaml                       every case, one line each
  python -m landed.testing.cases mine.yaml theirs.yaml            several files
  python -m landed.testing.cases cases.yaml --only C01,C65 --verbose
  python -m landed.testing.cases cases.yaml --real C01            on a real broker and database

exit codes: 0 all passed, 1 a case failed or is not supported, 2 a file or an option is wrong"""


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Exit code: 0 all is well, 1 a case failed or too many are not supported, 2 a file or an option is wrong."""
    options = _parser().parse_args(arguments)
    try:
        cases = [case for path in options.files for case in load(path)]
        chosen = _chosen(cases, options.real or options.only)
    except CasesError as error:
        print(error, file=sys.stderr)
        return 2
    outcomes = []
    for outcome in _in_real_time(chosen) if options.real else map(run, chosen):
        outcomes.append(outcome)
        for line in lines_of(outcome, verbose=options.verbose):
            print(line, file=out)
    print(*summary_of(outcomes), sep="\n", file=out)
    return exit_code(outcomes, unsupported_max=options.max_unsupported)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m landed.testing.cases",
        description="Plays reported failures against the product.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="cases in YAML, format 2")
    parser.add_argument("--max-unsupported", type=int, default=0, metavar="N", help="exact cases that may be not supported (0)")
    parser.add_argument("--only", default="", metavar="IDS", help="play only these, separated by commas")
    parser.add_argument("--real", default="", metavar="IDS", help="play these in real time, on a real broker and database")
    parser.add_argument("--verbose", action="store_true", help="print also what a person has to compare")
    return parser


def _in_real_time(cases: Sequence[Case]) -> list[Outcome]:
    try:
        from landed.testing.cases.real.servers import play_on_servers
    except ModuleNotFoundError as error:
        raise SystemExit(f"{error.name} is needed for --real: pip install 'landed[cases,services,embedded]'") from None
    return play_on_servers(cases)


def _chosen(cases: list[Case], only: str) -> list[Case]:
    names = [name for name in only.split(",") if name]
    missing = [name for name in names if all(case.id != name for case in cases)]
    if missing:
        raise CasesError(f"there is no case {', '.join(missing)}")
    return [case for case in cases if not names or case.id in names]


def lines_of(outcome: Outcome, *, verbose: bool = False) -> list[str]:
    """The line of one case; of a described one also what was checked and what a person compares."""
    because = "; ".join(outcome.because)
    lines = [f"{outcome.case.id:<6}{outcome.result:<15}{because}".rstrip()]
    checks = outcome.checks
    if outcome.result == "pass" and (verbose or not outcome.case.exact):
        counts = (
            f"{outcome.checked} states, groups and effects, {checks.facts_checked} facts, {checks.must_not_checked} must_nots"
        )
        lines.append(f"      checked: {counts}")
        lines += [f"      compare: {text}" for text in outcome.for_people]
        lines += [f"      fact: {text}" for text in checks.facts_printed]
        lines += [f"      must not: {text}" for text in checks.must_not_printed]
    return lines


def summary_of(outcomes: Sequence[Outcome]) -> list[str]:
    counts = Counter(outcome.result for outcome in outcomes)
    passed = [outcome.checks for outcome in outcomes if outcome.result == "pass"]
    facts, printed = sum(one.facts_checked for one in passed), sum(len(one.facts_printed) for one in passed)
    nots, nots_printed = sum(one.must_not_checked for one in passed), sum(len(one.must_not_printed) for one in passed)
    return [
        f"{counts['pass']} passed, {counts['fail']} failed, {counts['not supported']} not supported",
        f"of the passed: {facts} facts checked, {printed} only printed; {nots} must_nots checked, {nots_printed} only printed",
    ]


def exit_code(outcomes: Sequence[Outcome], *, unsupported_max: int) -> int:
    unsupported = sum(outcome.result == "not supported" and outcome.case.exact for outcome in outcomes)
    failed = any(outcome.result == "fail" for outcome in outcomes)
    return 1 if failed or unsupported > unsupported_max else 0
