"""Whether there is room in memory for what a question measures: looked at before anything is paid."""

from __future__ import annotations

from dpnotebook.errors import WorkloadError
from dpnotebook.planner.partwise import BYTES, read_by_part
from dpnotebook.query.question import Question


def free_memory() -> int | None:
    """Return how many bytes of memory are free here; None where that cannot be told."""
    try:
        import psutil  # every notebook kernel has it
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)


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
