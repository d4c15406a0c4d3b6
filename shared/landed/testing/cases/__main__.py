import sys

from landed.testing.cases.command import main

if __name__ == "__main__":
    sys.exit(main())
