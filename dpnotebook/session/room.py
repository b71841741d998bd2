"""Whether there is room in memory for what a question measures: looked at before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dpnotebook.errors import WorkloadError
from dpnotebook.planner.partwise import BYTES, read_by_part
from dpnotebook.query.question import Question

# Where Linux keeps them, inside a container: control groups of version 2, and of version 1.
GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


def free_memory() -> int | None:
    """Return how many bytes of memory are free here, within a container's limit; None where that cannot be told."""
    try:
        import psutil  # every notebook kernel has it
    except ImportError:
        return None
    free = int(psutil.virtual_memory().available)
    allowed = container_memory()
    return free if allowed is None else min(free, allowed)


def container_memory(groups: Sequence[tuple[str, str, str]] = GROUPS) -> int | None:
    """Return how many bytes this process's container may still use; None where it is in none that has a limit.

    The machine's free memory is not the container's: past its limit a kernel is killed, which no error can tell of.

    Parameters
    ----------
    groups
        Files of the limit, of what is used, and of what of that is pages of files, which make room.
    """
    for limit, used, statistics in groups:
        with suppress(OSError, ValueError):
            most, taken = int(Path(limit).read_text()), int(Path(used).read_text())  # "max" where there is none
            lines = (line.split() for line in Path(statistics).read_text().splitlines())
            pages = {name: int(value) for name, value in lines}
            cached = pages.get("total_inactive_file", pages.get("inactive_file", 0))
            return max(0, most - taken + cached)
    return None


def check_room(question: Question) -> None:
    """Raise WorkloadError if there is no room here for what is measured for very many answers; nothing was spent."""
    if not read_by_part(question):
        return
    answers = sum(int(measure.workload.shape[0]) for measure in question.measures if measure.workload is not None)
    needed, here = BYTES * answers, free_memory()
    if here is not None and needed > here:
        raise WorkloadError(
            f"measuring {answers:,} answers takes about {needed / 2**30:,.1f} GiB of memory, and {here / 2**30:,.1f} "
            "GiB are free here; nothing was spent. Ask for fewer attributes together, or on a larger machine"
        )
