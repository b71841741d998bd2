"""What other processes do to a ledger in these tests: spend all of it, or be killed while they use it."""

import hashlib
import os
import random
import signal
import sys
import time
import traceback
from fractions import Fraction

import numpy as np

from dpnotebook.domain import Domain, Range
from dpnotebook.errors import BudgetExceeded, LedgerConflict
from dpnotebook.ledger import Ledger
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

SIZES = {"age": 10, "sex": 2}
DOMAIN = Domain({"age": Range(0, 9), "sex": ["F", "M"]}).to_json()


def opened(path, budget):
    ledger = Ledger(path, Budget(budget))
    ledger.register("people", fingerprint="f1", domain=DOMAIN, unit=None, max_rows=None)
    return ledger


def random_cost(source, dearest):
    """Return a cost on a random box of cells."""
    norms = {}
    for name, size in SIZES.items():
        if source.random() < 0.7:
            norms[name] = np.array([source.randrange(2) for _ in range(size)], dtype=np.int64)
    return CellCost((CostTerm(Fraction(source.randrange(1, dearest)), norms),))


def shown(answers):
    return hashlib.sha256(b"".join(array.tobytes() for array in answers)).hexdigest()


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def hammer(path, processes, kind):
    """Start processes at once that spend until nothing is left, or refine; none has opened the ledger before."""
    gate, opens = os.pipe()
    children = []
    for seed in range(int(processes)):
        child = os.fork()
        if child == 0:
            os.close(opens)
            os.read(gate, 1)  # until all are there
            try:
                if kind == "refine":
                    refine_all(path, seed, int(processes))
                else:
                    spend_all(path, seed, kind)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    os.close(opens)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def spend_all(path, seed, kind):
    """Spend until nothing is left: equal costs everywhere, or random ones on random cells."""
    source, granted, refusals = random.Random(seed), [], 0
    ledger = opened(path, 1.0)
    while refusals < (1 if kind == "equal" else 5):
        cost = CellCost((CostTerm(Fraction(10**10), {}),)) if kind == "equal" else random_cost(source, 10**11)
        try:
            charge = ledger.charge("people", "q", {"by": seed}, cost)
        except BudgetExceeded as error:
            refusals += error.requested_units > error.remaining_units >= 0
        else:
            granted.append(charge.number)
            ledger.record(charge.number, [np.array([seed])], {})
    say(seed, *granted)


def refine_all(path, seed, processes):
    """Try to refine each answer to "q", and once more where that was won; say which were."""
    source, ledger, won = random.Random(seed), opened(path, 1.0), []
    ledger.note("people", "ready", {}, {})
    while len(ledger.records("people", "ready")) < processes:
        time.sleep(0.001)
    records = ledger.records("people", "q")
    first = seed * len(records) // processes  # each begins elsewhere, so that the fastest does not win all
    for record in [*records[first:], *records[:first]]:
        for _ in range(2):
            time.sleep(source.random() * 0.003)  # so that no process holds the ledger all the time
            try:
                cost = CellCost((CostTerm(Fraction(1), {}),))
                charge = ledger.charge("people", "refined", {"by": seed}, cost, [(record.number, 0)])
            except LedgerConflict:
                continue
            won.append(record.number)
            if (seed + charge.number) % 2:  # the others stay unrecorded, and count as well
                ledger.record(charge.number, [np.array([seed])], {})
    say(seed, *won)


def use(path, seed):
    """Complete what is pending, then charge and record for ever; say what was promised as soon as it is."""
    source = random.Random(str(seed))
    ledger = opened(path, 10**4)
    for charge in ledger.pending("people"):
        record = ledger.record(charge.number, [np.array([source.getrandbits(40)])], {})
        say("shown", record.number, shown(record.answers))
    while True:
        if source.random() < 0.2:
            say("shown", ledger.note("people", "free", {}, {"estimates": [0.5]}).number, shown(()))
        _, measured = ledger.news("people")
        refines = [(source.choice(measured).number, 0)] if measured and source.random() < 0.8 else []
        try:
            charge = ledger.charge("people", f"q{source.randrange(5)}", {}, random_cost(source, 10**9), refines)
        except LedgerConflict:
            continue
        say("charged", charge.number, charge.units)
        if source.random() < 0.5:
            time.sleep(source.random() * 0.01)  # as long as a query of the data may take
        noise = np.array([source.getrandbits(40) for _ in range(source.choice([1, 300]))])
        record = ledger.record(charge.number, [noise], {})
        say("shown", record.number, shown(record.answers))


def killed():
    """For every path on the input, start two processes that use it and kill them at random moments."""
    source = random.Random(50)
    for line in sys.stdin:
        path = line.strip()
        reader, writer = os.pipe()
        children = []
        for _ in range(2):
            seed = source.random()
            child = os.fork()
            if child == 0:
                os.dup2(writer, 1)
                os.close(reader)
                try:
                    use(path, seed)
                finally:
                    os._exit(1)
            children.append(child)
        os.close(writer)
        # At once, or when some promises were made, however fast this machine is; and then in the middle of something.
        promised, wanted = b"", 0 if source.random() < 0.3 else source.randrange(2, 12)
        while promised.count(b"\n") < wanted and (more := os.read(reader, 1 << 16)):
            promised += more
        time.sleep(source.uniform(0, 0.03))
        for child in children:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            say("killed" if os.WIFSIGNALED(status) else "ended")
            time.sleep(source.uniform(0, 0.01))
        with os.fdopen(reader, "rb") as rest:
            text = (promised + rest.read()).decode()
        # What was cut off by the kill was not promised.
        say(text[: text.rfind("\n") + 1] + "done")


if __name__ == "__main__":
    {"hammer": hammer, "killed": killed, "used": use}[sys.argv[1]](*sys.argv[2:])
