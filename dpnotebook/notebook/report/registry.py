"""An entry for the public registry of differential-privacy deployments, filled in as far as a session knows it.

The registry (OpenDP and NIST; Dwork, Kohli and Mulligan 2019, "Differential Privacy in Practice: Expose Your
Epsilons!"; Nanayakkara, Ghazi and Vadhan 2025) keeps one YAML file a deployment, whose keys are those of its template.
Only what a person has to say is left empty, and marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook.report.guarantee import COMPOSED, INTERVALS, PLANNED, PUBLIC, noise_words, unit_words, withheld

if TYPE_CHECKING:
    from dpnotebook.notebook.report.about import About
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.session import Session

TO_FILL_IN = "# to be filled in"
SOFTWARE = (
    "Made with dpnotebook {}. Noise is drawn on whole numbers by exact samplers, so that floating-point numbers play "
    "no part in it; the engine that holds the rows gives out nothing but clamped sums of whole numbers. What is "
    "charged is written to a ledger before the data is read, and every answer before it is shown; each entry is "
    "chained to the one before it by a hash. How long a question took is seen by the curator alone."
)
ACTORS = (
    "The curator holds the data, runs the software in a kernel of its own, and is trusted with the exact values. "
    "Readers see what is published, and are not trusted: the guarantee holds whatever else they know, and if all of "
    "them put together what they have."
)


def entry(session: Session, about: About, tables: Sequence[ProtectedTable], version: str) -> dict[str, Any]:
    """Return the entry as JSON values, in the order of the registry's template.

    Parameters
    ----------
    session
        Whose answers are published.
    about
        What the person who publishes says.
    tables
        Those that the published answers are about.
    version
        Of this package.
    """
    budget = session.budget
    parameters = {"epsilon": budget.epsilon} | ({"delta": budget.delta} if budget.delta else {})
    units = [table.table.one if table.table.unit else "row" for table in tables]
    grows = any(table.table.parts for table in tables)
    slug = re.sub(r"[^a-z0-9]+", "-", about.title.lower()).strip("-")
    return {
        "url_slug": f"{slug}-{about.published[:4]}",
        "deployment": {
            "basic": {
                "name": about.title,
                "data_curators": [
                    {"data_curator_name": about.curator, "data_curator_type": about.curator_type},
                ],
                "description": about.description,
                "intended_use": about.intended_use,
                "data_product_type": "Summary statistics",
                "data_product_region": about.region,
                "data_product_sector": about.sector,
                "publication_date": about.published,
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if budget.delta else "Pure DP",
                "data_domain": "Tables with the columns that are declared for "
                + " and ".join(f"'{table.table.name}'" for table in tables)
                + ", with any number of rows and any values in them.",
                "unprotected_quantities": "None that was computed from the data, as far as levels and bounds were "
                f"declared without looking at it. {PUBLIC}",
            },
            "privacy_loss": {
                "privacy_unit": ", ".join(dict.fromkeys(f"{unit}-level" for unit in units)),
                "privacy_unit_details": "Data sets are adjacent if one is the other with one unit added or removed: "
                + "; ".join(map(unit_words, tables))
                + ".",
                "privacy_parameters": parameters,
                "privacy_parameters_details": "The budget of all answers together, those to come included. "
                + f"Spent when this was published: epsilon {session.spent.epsilon:.6g}"
                + (f", delta {session.spent.delta:.6g}." if budget.delta else "."),
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": "The curator is trusted, readers are not.",
                "actors": ACTORS,
                "release_type": "Many releases" if grows else "One release",
                "release_type_details": "What further answers from the same budget cost is added to what these have.",
                "data_source_type": "Dynamic" if grows else "Static",
                "access_type": "Non-interactive",
                "access_type_details": "Readers get the published answers, and ask nothing of the data.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Levels and bounds were declared before anything was "
                "measured; values outside are clamped, counted as other, or left out, as declared. Budget and errors "
                "were chosen by the curator.",
                "mechanisms": f"{noise_words(session)} {SOFTWARE.format(version)}",
                "composition": COMPOSED,
                "post_processing": " ".join((PLANNED, *withheld(session))),
                "justification": about.justification,
                "utility": f"Every published number has its interval. {INTERVALS}",
            },
            "administrative": {"status": "Draft", "registry_authors": [about.curator], "tier": 3},
        },
    }


def as_yaml(values: Mapping[str, Any]) -> str:
    """Return an entry as YAML: texts in double quotes, which YAML reads as JSON does; what is empty is marked."""
    return "\n".join(_lines(values, 0)) + "\n"


def _lines(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            for one in value:
                if isinstance(one, Mapping):
                    first, *others = _lines(one, depth + 2)
                    yield f"{indent}  - {first.strip()}"
                    yield from others
                else:
                    yield f"{indent}  - {_scalar(one)}"
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return repr(value) if "e" not in repr(value) or "." in repr(value) else repr(value).replace("e", ".0e")
    return json.dumps(value, ensure_ascii=False) + (f"  {TO_FILL_IN}" if value == "" else "")
