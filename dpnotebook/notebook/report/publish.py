"""From chosen releases to a folder that can be handed on: of what was released, and of nothing else.

Everything here reads releases, the declared domain and the ledger; no engine, so no row, can be reached.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import ArgumentError, DPError, WorkloadError, shorten
from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.release import beside, facts, scope
from dpnotebook.notebook.plots.figure import LARGEST_SVG
from dpnotebook.notebook.plots.images import image, svg_and_png
from dpnotebook.notebook.plots.numbers import answer_table, warnings
from dpnotebook.notebook.plots.release import plot_release
from dpnotebook.notebook.report.about import About
from dpnotebook.notebook.report.files import checked_folder, write_folder
from dpnotebook.notebook.report.guarantee import columns, guarantee, method, tables_of
from dpnotebook.notebook.report.page import Answer, Page, as_page
from dpnotebook.notebook.report.registry import as_yaml, entry
from dpnotebook.query.question import Question
from dpnotebook.session.answer_frame import PARTS, column_name
from dpnotebook.session.release import Release
from dpnotebook.session.spreadsheet import csv_text

if TYPE_CHECKING:
    from dpnotebook.session.session import Session

PAGE, NUMBERS, ENTRY = "report.html", "releases.json", "registry.yaml"
FORMAT = "dpnotebook report, version 1"
MOST_ROWS = 1_000  # of a release that the page lists; all are in its file
HEAD = 16  # digits of a hash that a citation names


def publish(
    session: Session,
    path: str | PathLike[str],
    releases: Release | int | Iterable[Release | int] | None,
    *,
    overwrite: bool,
    **said: str | None,
) -> Path:
    """Write the report of a session; see `Session.publish`."""
    if not isinstance(overwrite, bool):
        raise ArgumentError(f"overwrite= is True or False, not {shorten(overwrite)}")
    target = checked_folder(path, overwrite=overwrite, mark=PAGE)
    chosen = _chosen(session, releases)
    tables = [session.table(name) for name in dict.fromkeys(name for one in chosen for name in tables_of(session, one))]
    texts = {name: text for name, text in said.items() if text is not None}
    texts.setdefault("title", f"Statistics of {' and '.join(table.table.name for table in tables)}")
    texts.setdefault("published", datetime.date.today().isoformat())
    about = About(**texts)
    registry = entry(session, about, tables, _version())
    names = _names(chosen)
    files = {f"{name}.csv": csv_text(one.frame).encode() for name, one in zip(names, chosen, strict=True)}
    files[NUMBERS] = _json(session, about, chosen, registry)
    files[ENTRY] = as_yaml(registry).encode()
    audit = session.audit()
    if not audit.ok:
        raise ArgumentError(f"the ledger is not as it was written, so nothing is published: {audit.problems[0]}")
    page = Page(
        title=about.title,
        lead=_lead(about, chosen),
        guarantee=list(guarantee(session, tables)),
        method=list(method(session, tables)),
        declared=[(one.table, one.name, one.words) for one in columns(session, chosen)],
        answers=[_answer(one, name) for name, one in zip(names, chosen, strict=True)],
        citation=_citation(session, about, audit.head),
        bibtex=_bibtex(session, about, audit.head),
        registry=as_yaml(registry),
        ledger=_ledger(session, audit.head),
        files=files,
    )
    write_folder(target, {PAGE: as_page(page).encode()} | files)
    return target


def _chosen(session: Session, releases: Any) -> list[Release]:
    """Return the releases to publish, each as it was answered.

    Raises
    ------
    ArgumentError
        If something else is among them, or one of another session, or one whose frame was changed.
    """
    if releases is None:
        history = session.history()
        releases = history["number"][history["state"] == "recorded"].tolist()
        if not releases:
            raise ArgumentError("nothing was released from this session yet, so there is nothing to publish")
    listed = [releases] if isinstance(releases, Release | Integral) else releases
    if not isinstance(listed, list | tuple):
        raise ArgumentError(f"releases= lists releases, or their numbers, such as [first, 3]; not {shorten(releases)}")
    if not listed:
        raise ArgumentError("releases= is empty: leave it out to publish all")
    found = [_checked(session, one) for one in listed]
    for one in found:
        if one.unread:
            raise ArgumentError(
                f"release #{one.number} is too long for a report: publish the tables that it is for. {one.unread}"
            )
    return found


def _checked(session: Session, one: Any) -> Release:
    if isinstance(one, Integral) and not isinstance(one, bool):
        return session.release(int(one))
    if not isinstance(one, Release):
        hint = "; run it first" if type(one).__name__ == "Query" else ""
        raise ArgumentError(f"releases= lists releases, or their numbers, not {shorten(one)}{hint}")
    named = f"release #{one.number}" if one.number else "a comparison"
    if one.origin != session.ledger.identity:
        raise ArgumentError(
            f"{named} was answered from another ledger, whose budget it was paid from: publish it from that session"
        )
    if one.unread:  # which is refused
        return one
    if isinstance(one.question, Question) and beside(one):
        raise _changed(named)
    if one.again is not None and not one.together:
        try:
            as_answered = one.again(one.confidence).frame
        except WorkloadError:  # of a comparison whose sides cannot be had again
            return one
        if not as_answered.equals(one.frame):
            raise _changed(named)
    return one


def _changed(named: str) -> ArgumentError:
    return ArgumentError(
        f"the frame of {named} is not as it was answered, and only what was released is published: pass the release "
        "as run() returned it, or its number"
    )


def _names(releases: Sequence[Release]) -> list[str]:
    """Return what the files of releases are called; the same one can be shown in several ways."""
    named: list[str] = []
    for one in releases:
        name = f"release-{one.number}" if one.number else "comparison"
        named.append(name if name not in named else f"{name}-{len(named) + 1}")
    return named


def _answer(release: Release, name: str) -> Answer:
    return Answer(
        name=name,
        title=release.title,
        scope=scope(release),
        statement=str(getattr(release.question, "text", "")),
        picture=_picture(release),
        table=answer_table(release, MOST_ROWS),
        facts=facts(release),
        notes=tuple(warnings(release)),
    )


def _picture(release: Release) -> str:
    """Return the plot of a release as an image; empty where there is nothing to draw."""
    if not len(release.frame):
        return ""
    try:
        figure = plot_release(release)
    except DPError:  # which says that its answers are no numbers with a place on an axis
        return ""
    large, small = svg_and_png(figure)
    return image(large if len(large) <= LARGEST_SVG else small, figure.alt)


def _json(session: Session, about: About, releases: Sequence[Release], registry: dict[str, Any]) -> bytes:
    budget, policy = session.budget, session.policy
    values = {
        "format": FORMAT,
        "title": about.title,
        "curator": about.curator,
        "published": about.published,
        "software": f"dpnotebook {_version()}",
        "budget": budget.to_json(),
        "noise": budget.noise,
        "spent": {"epsilon": session.spent.epsilon, "delta": session.spent.delta},
        "policy": None if policy is None else {"digest": policy.digest} | policy.said,
        "releases": [_values(one) for one in releases],
        "registry": registry,
    }
    return (json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def _values(release: Release) -> dict[str, Any]:
    measures = [
        {
            "column": measure.name,
            "words": release.words_of(measure),
            "unit": release.unit_of(measure),
            **{part: column_name(measure.name, part) for part in PARTS[:3]},
        }
        for measure in release.measures
    ]
    return {
        "number": release.number,
        "table": release.table,
        "asked": release.title,
        "where": release.where,
        "statement": getattr(release.question, "text", None),
        "keys": list(release.keys),
        "measures": measures,
        "confidence": release.confidence,
        "all_at_once": release.together,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "follows_from": list(release.sources),
        "notes": warnings(release),
        "rows": json.loads(release.frame.to_json(orient="records", date_format="iso", double_precision=15)),
    }


def _lead(about: About, releases: Sequence[Release]) -> list[str]:
    who = f", by {about.curator}" if about.curator else ""
    many = formatting.plural(len(releases), "table") + " of answers"
    found = [about.description] if about.description else []
    found.append(
        f"Published on {about.published}{who}: {many} about a table that is confidential, with differential privacy. "
        "Every number is noisy on purpose, and has an interval that says how much."
    )
    return found


def _citation(session: Session, about: About, head: str) -> str:
    who = f"{about.curator} ({about.published[:4]})" if about.curator else f"({about.published[:4]})"
    kind = f"ε = {session.budget.epsilon:g}" + (f", δ = {session.budget.delta:g}" if session.budget.delta else "")
    return (
        f"{who}. {about.title}. Differentially private statistics ({kind}), made with dpnotebook {_version()}, "
        f"{about.published}. Ledger {head[:HEAD]}."
    )


def _bibtex(session: Session, about: About, head: str) -> str:
    year, month, day = about.published.split("-")
    lines = {
        "title": about.title,
        "author": f"{{{about.curator}}}" if about.curator else "",
        "year": year,
        "month": month,
        "day": day,
        "note": f"Differentially private statistics, {session.budget}, dpnotebook {_version()}, ledger {head[:HEAD]}",
    }
    inside = ",\n".join(f"  {name} = {{{text}}}" for name, text in lines.items() if text)
    return f"@misc{{dpnotebook-{head[:HEAD]},\n{inside}\n}}"


def _ledger(session: Session, head: str) -> list[str]:
    found = [
        f"The ledger of these answers was audited when this was written, and nothing in it had been changed. Its head "
        f"was {head}; session.audit(expected=...) with these digits proves later that all up to here is still there."
    ]
    if session.policy is not None:
        found.append(f"The session was under a policy, {session.policy.digest}: {'; '.join(session.policy.words)}.")
    return found


def _version() -> str:
    try:
        return version("dpnotebook")
    except PackageNotFoundError:  # run from its sources
        return "of unknown version"
