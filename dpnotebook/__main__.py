"""`python -m dpnotebook`, the same as the command `dpnotebook`."""

from __future__ import annotations

import sys

from dpnotebook.notebook.tour.command import main

if __name__ == "__main__":
    sys.exit(main())
