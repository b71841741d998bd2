"""Make the golden files again: `python tests/golden/remake.py`, or some by name: `... remake.py statements_linear`."""

import sys
import time
import types
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(chosen):
    """Make the golden files of these names, or all."""
    sys.path[:] = [str(FOLDER.parents[1]), *(place for place in sys.path if Path(place or ".").resolve() != FOLDER)]
    package = types.ModuleType("golden")
    package.__path__ = [str(FOLDER)]
    sys.modules["golden"] = package
    from golden.everything import ledger_makers, makers, server_makers
    from golden.files import write

    known = makers() | ledger_makers() | server_makers()
    for name in chosen or known:
        if name not in known:
            raise SystemExit(f"there is no {name}; there are {', '.join(known)}")
        started = time.process_time()
        found = known[name]()
        if found is None:
            print(f"{name}: left as it is, its server is not here")
            continue
        write(name, found)
        print(f"{name}: {len(found)} cases, {time.process_time() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
