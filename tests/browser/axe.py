"""What axe-core, the accessibility checker, finds in a part of a page: the part that is ours."""

import importlib.resources
import json

SOURCE = "axe.min.js"  # as the package axe-playwright-python has it: nothing is downloaded
BAD = ("serious", "critical")  # impacts that we do not leave


COLOURS = ("color-contrast", "link-in-text-block")  # all that another theme changes


def violations(page, selector, rules=()):
    """Return what axe-core finds serious or critical below a selector, one line for each element, the reason first.

    Parameters
    ----------
    page, selector
        Where to look.
    rules
        What to look for; all there is, if none.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(importlib.resources.files("axe_playwright_python").joinpath(SOURCE).read_text("utf-8"))
    assert page.locator(selector).count(), f"nothing to check at {selector}"
    found = page.evaluate(
        # What is in order is not written out: of tables with hundreds of cells that takes as long as looking at them.
        """([selector, rules]) => axe.run({include: [[selector]]}, {resultTypes: ['violations'],
            ...(rules.length ? {runOnly: rules} : {})}).then(found => found.violations)""",
        [selector, list(rules)],
    )
    return [
        f"{one['id']} ({one['impact']}): {json.dumps(node['target'])} {node['html']} {node['failureSummary']}"
        for one in found
        if one["impact"] in BAD
        for node in one["nodes"]
    ]
