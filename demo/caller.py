"""An agent's process of the demo: performs one refund and prints the result as one line of JSON."""

import json
import sys

import msgspec

from demo.tools import refund
from landed import Ledger


def main() -> None:
    charge, amount = sys.argv[1], int(sys.argv[2])
    with Ledger.connect() as ledger:
        result = ledger.perform(refund, charge=charge, amount=amount)
        shown = {name: value for name, value in msgspec.structs.asdict(result).items() if name != "answer"}
    print(json.dumps({"result": type(result).__name__, **msgspec.to_builtins(shown)}))


if __name__ == "__main__":
    main()
