"""`python -m rmqstore` is the command line."""

from __future__ import annotations

import sys

from rmqstore.cli import main

if __name__ == "__main__":
    sys.exit(main())
