"""Made the ledgers of every feature before the house was rebuilt: `python tests/golden/make_ledger.py FOLDER`.

They are kept under tests/data and are never made again: what later versions write is compared in the golden files, and
these show that what was written stays readable. So it writes to another folder.
"""

import sys
import types
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(folder):
    """Write the ledgers into a folder."""
    sys.path[:] = [str(FOLDER.parents[1]), *(place for place in sys.path if Path(place or ".").resolve() != FOLDER)]
    package = types.ModuleType("golden")
    package.__path__ = [str(FOLDER)]
    sys.modules["golden"] = package
    from golden.house import LEDGERS, written

    for ledger in LEDGERS:
        print(ledger.name, written(ledger, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1])
