"""What differs between two declared domains of one table."""

from __future__ import annotations

from dpnotebook.domain.schema import Domain
from dpnotebook.errors import shorten


def changes(before: Domain, after: Domain) -> str:
    """Return in words what another declaration of a table's columns changes, attribute by attribute.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> changes(dpn.Domain({"age": dpn.Range(0, 99)}), dpn.Domain({"age": dpn.Range(0, 120), "sex": ["F", "M"]}))
    "'age' is Range(0, 120), was Range(0, 99); 'sex' is new, Categories(['F', 'M'])"
    """
    found = []
    for name, attribute in after.items():
        if name not in before:
            found.append(f"{shorten(name)} is new, {_declared(attribute)}")
        elif before[name] != attribute:
            found.append(f"{shorten(name)} is {_declared(attribute)}, was {_declared(before[name])}")
    found += [f"{shorten(name)} is gone" for name in before if name not in after]
    if not found and before.names != after.names:
        found.append("its columns are in another order")
    return "; ".join(found)


def _declared(attribute: object) -> str:
    text = repr(attribute)
    return text if len(text) <= 80 else f"{text[:79]}…"
