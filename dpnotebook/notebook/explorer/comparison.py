"""A comparison of strategies in a thread of its own, which tells of every strategy as it is found and can be stopped.

It knows nothing of widgets. It reads no data and charges no ledger: the error of a strategy follows from the queries
and the noise alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

from dpnotebook.errors import Cancelled, DPError
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.catalogue import Candidate, candidates, made
from dpnotebook.strategy.strategy import Strategy, is_known
from dpnotebook.workload import Workload

_one_at_a_time = threading.Lock()
_working: Comparison | None = None


class Comparison:
    """All strategies that suit a workload, made one after the other, those first that take no time.

    Parameters
    ----------
    workload, noise
        What is to be answered, and with which noise.
    changed
        Called with the comparison after every strategy and at the end, in the thread that works.
    report
        Called with the comparison, a fraction of all the work, and what is being done.
    among
        The candidates to make; all that suit the workload, unless given.
    """

    def __init__(
        self,
        workload: Workload,
        noise: Noise,
        changed: Callable[[Comparison], None] = lambda _: None,
        report: Callable[[Comparison, float | None, str], None] = lambda *_: None,
        among: Sequence[Candidate] | None = None,
    ) -> None:
        self.workload, self.noise = workload, noise
        self.among = list(candidates(workload, noise) if among is None else among)
        self.found: dict[str, Strategy] = {}
        self.skipped: dict[str, str] = {}
        self.state = "ready"
        self._changed, self._report = changed, report
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> list[Candidate]:
        """The candidates that have not been tried."""
        return [each for each in self.among if each.name not in self.found and each.name not in self.skipped]

    @property
    def ranked(self) -> list[tuple[Candidate, Strategy]]:
        """What was found, the least error first."""
        titled = [(each, self.found[each.name]) for each in self.among if each.name in self.found]
        return sorted(titled, key=lambda pair: pair[1].objective)

    @property
    def bound(self) -> float | None:
        """What no strategy's objective can be below, for all that was proved so far; None where nothing near is known.

        What was found tells how near a bound is: the same one counts for all strategies, good ones and bad ones.
        """
        found = list(self.found.values())
        bound = max((strategy.bound for strategy in found), default=0.0)
        least = min((strategy.objective for strategy in found), default=math.inf)
        certificate = max((strategy.certificate for strategy in found), default=0.0)
        return bound if is_known(self.workload, self.noise, least, bound, certificate) else None

    def start(self) -> None:
        """Begin in a thread; of all comparisons only one works at a time, and another is cancelled."""
        global _working
        with _one_at_a_time:
            if _working is not None:
                _working.cancel()
            _working = self
        self.state = "running"
        self._thread = threading.Thread(target=self._work, name="dpnotebook-comparison", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Do all of it now, in this thread."""
        self.state = "running"
        try:
            self._work()
        except KeyboardInterrupt:
            self.state = "cancelled"
            raise

    def cancel(self) -> None:
        """Ask the work to stop; what was found stays."""
        if self.state == "running":
            self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the thread to end; return whether it did."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _work(self) -> None:
        global _working
        try:
            for number, candidate in enumerate(self.among):
                self._one(number, candidate)
                self._changed(self)
            self.state = "done"
        except Cancelled:
            self.state = "cancelled"
        with _one_at_a_time:
            if _working is self:
                _working = None
        self._changed(self)

    def _one(self, number: int, candidate: Candidate) -> None:
        def report(fraction: float | None, doing: str) -> None:
            if self._stop.is_set():
                raise Cancelled("the comparison was cancelled")
            share = (number + min(1.0, max(0.0, fraction or 0.0))) / len(self.among)
            self._report(self, share, f"{candidate.title}: {doing}")

        report(0.0, candidate.about)
        try:
            strategy = made(candidate, self.workload, self.noise, report=report)
            _ = strategy.bound  # may take a while: here, and not while somebody waits for a picture
            self.found[candidate.name] = strategy
        except Cancelled:
            raise
        except (DPError, MemoryError) as error:
            self.skipped[candidate.name] = str(error) or "it does not fit in memory"
        except Exception as error:  # one broken strategy must not end the comparison of the others
            self.skipped[candidate.name] = f"failed with {type(error).__name__}: {error}"
