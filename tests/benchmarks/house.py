"""The size and shape of the package, and how often one question goes from module to module: a table.

`python tests/benchmarks/house.py [CHECKOUT ...]` measures this checkout, and others beside it, such as an earlier one.
Imports are counted wherever they stand; a crossing is a call from one module of the package into another.
"""

import ast
import collections
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]

CROSSINGS = """
import json, sys
import numpy as np, pandas as pd
import dpnotebook as dpn

frame = pd.DataFrame({"age": np.arange(3000) % 100, "sex": ["F", "M", "F"] * 1000, "pay": np.arange(3000) % 700})
session = dpn.Session(dpn.Budget(1e6, 1e-6))
domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "pay": dpn.Bins(0, 700, width=100)}
session.protect(frame, "people", domain=domain)
frame.dp.histogram("age", epsilon=1.0).run()
STATEMENT = "SELECT sex, SUM(pay) FROM people WHERE {} GROUP BY sex"
asked = {
    "count(epsilon=)": lambda where: frame.dp.count(where=where, epsilon=0.1),
    "count(error=), with history": lambda where: frame.dp.count(where=where, error=4),
    "a statement": lambda where: session.sql(STATEMENT.format(where), epsilon=1.0),
}

def measured(call):
    count, modules, place = 0, set(), []
    def profile(frame, event, argument):
        nonlocal count
        if event == "call":
            here = frame.f_globals.get("__name__", "")
            there = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
            if here.startswith("dpnotebook"):
                modules.add(here)
                count += there.startswith("dpnotebook") and there != here
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count, len(modules)

found = {}
for name, ask in asked.items():
    ask("age < 30").run()  # what is imported or cached once is not counted
    query = ask("age < 40")
    plan = measured(lambda: query.plan)
    looked = query.plan  # earlier checkouts compare while they plan: then nothing is left to work out here
    compared = measured(lambda: (looked.alternatives, looked.otherwise, looked.afresh))
    found[name] = plan + compared + measured(query.run)
print(json.dumps(found))
"""


def shape(package):
    """Return what the sources say, by name."""
    sources = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    names = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources
    }
    importers, doors, longest, classes = collections.defaultdict(set), set(), 0, collections.Counter()
    graph = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(sources[path])):
            if isinstance(node, ast.ImportFrom) and node.module:
                for inner in (f"{node.module}.{alias.name}" for alias in node.names):
                    there = inner if inner in names else node.module
                    if there in names and there != name:
                        graph[name].add(there)
                        importers[there].add(name)
                        if room(there) != room(name):
                            doors.add((room(name), room(there)))
            elif isinstance(node, ast.FunctionDef):
                longest = max(longest, node.end_lineno - node.lineno + 1)
            elif isinstance(node, ast.ClassDef):
                classes[node.name] += 1
    return {
        "files": len(sources),
        "lines": sum(text.count("\n") for text in sources.values()),
        "lines of code": sum(code_lines(text) for text in sources.values()),
        "rooms": len({room(name) for name in names}),
        "imports between rooms": len(doors),
        "files in circles": len(in_circles(graph)),
        "lines of the longest function": longest,
        "modules with one importer": sum(len(who) == 1 for who in importers.values()),
        "class names of two classes": sum(count > 1 for count in classes.values()),
    }


def module_of(path, package):
    """Return the dotted name of a file."""
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def room(module):
    """Return the first folder of a module, or itself where it is in none."""
    return module.split(".")[1] if "." in module else module


def code_lines(text):
    """Return the number of lines that hold more than comments and docstrings."""
    tree = ast.parse(text)
    texts = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip()}
    return len(written - texts)


def in_circles(graph):
    """Return the modules that can be reached from themselves."""

    def reached(start):
        found, waiting = set(), [*graph[start]]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += graph[name]
        return found

    return [name for name in graph if name in reached(name)]


def crossings(checkout):
    """Return the crossings and the distinct modules of planning and of running some questions, by question."""
    command = [sys.executable, "-c", CROSSINGS]
    done = subprocess.run(
        command, cwd=checkout, env={"PYTHONPATH": str(checkout), "PATH": ""}, capture_output=True, text=True
    )
    if done.returncode:
        return {"could not be run": done.stderr.splitlines()[-1:]}
    return json.loads(done.stdout)


def main():
    """Print a column for every checkout."""
    checkouts = [HERE, *(Path(one).resolve() for one in sys.argv[1:])]
    columns = []
    for checkout in checkouts:
        column = shape(checkout / "dpnotebook")
        for name, numbers in crossings(checkout).items():
            steps = ("plan", "comparing it", "run")
            parts = [f"{step}: {what}" for step in steps for what in ("crossings", "modules")]
            column |= {f"{name}, {part}": number for part, number in zip(parts, numbers, strict=False)}
        columns.append(column)
    print(f"{'':<54}", *(f"{checkout.name:>12}" for checkout in checkouts))
    for name in columns[0]:
        print(f"{name:<54}", *(f"{column.get(name, ''):>12}" for column in columns))


if __name__ == "__main__":
    main()
