"""Made-up tables, the same in every process: made by arithmetic, so that no generator's version matters."""

import datetime

import pandas as pd

import dpnotebook as dpn

PEOPLE = {
    "age": dpn.Range(0, 39),
    "sex": ["F", "M"],
    "region": dpn.Categories(["north", "east", "south", "west"], other="elsewhere", nullable=True),
    "income": dpn.Bins(0, 100_000, width=10_000),
    "smokes": bool,
}
VISITS = {
    "ward": ["A", "B", "C"],
    "age": dpn.Range(0, 99),
    "minutes": dpn.Bins(0, 240, width=20),
    "urgent": bool,
}
PATIENTS = {"sex": ["F", "M"]}
PATIENT = dpn.Unit("patient", column="patient_id")


def _spread(n, prime, size):
    """Return numbers below `size` that look mixed."""
    return (n * prime + n * n // 7 + n // 3) % size


def people(rows=300):
    """Return people, each with a row of its own."""
    regions = ["north", "north", "east", "south", "west", "abroad", None]
    return pd.DataFrame(
        {
            "age": [_spread(n, 17, 40) for n in range(rows)],
            "sex": ["F" if _spread(n, 5, 11) < 6 else "M" for n in range(rows)],
            "region": [regions[_spread(n, 3, 7)] for n in range(rows)],
            "income": [float(_spread(n, 7919, 104_729) % 100_000) + 0.5 for n in range(rows)],
            "smokes": [_spread(n, 13, 4) == 0 for n in range(rows)],
        }
    )


def visits(rows=600, patients=150):
    """Return visits, up to six a patient; drug, cost, day and note are not declared."""
    drugs = ["aspirin"] * 6 + ["statin"] * 4 + ["insulin"] * 2 + ["rare"]
    day = datetime.datetime(2023, 11, 20, 8)
    return pd.DataFrame(
        {
            "patient_id": [_spread(n, 31, patients) for n in range(rows)],
            "ward": ["AABC"[_spread(n, 7, 4)] for n in range(rows)],
            "age": [18 + _spread(n, 31, patients) % 70 for n in range(rows)],
            "minutes": [_spread(n, 37, 241) for n in range(rows)],
            "urgent": [_spread(n, 11, 5) == 0 for n in range(rows)],
            "drug": [drugs[_spread(n, 19, len(drugs))] for n in range(rows)],
            "cost": [None if n % 29 == 0 else _spread(n, 101, 9_001) / 100 for n in range(rows)],
            "day": [day + datetime.timedelta(hours=31 * _spread(n, 3, 90)) for n in range(rows)],
            "note": ["ok" if n % 3 else f"Call {n % 4}" for n in range(rows)],
        }
    )


def patients(count=150):
    """Return a row for each patient but every tenth; the town is not declared."""
    kept = [n for n in range(count) if n % 10]
    return pd.DataFrame(
        {
            "patient_id": kept,
            "sex": ["F" if _spread(n, 5, 9) < 5 else "M" for n in kept],
            "town": [["Bonn", "Bonn", "Ulm", "Jena"][_spread(n, 3, 4)] for n in kept],
        }
    )


def wards():
    """Return a public table."""
    return pd.DataFrame({"ward": ["A", "B", "C"], "floor": [1, 1, 2], "beds": [20, 12, 8]})


def drugs():
    """Return a public table."""
    return pd.DataFrame({"drug": ["aspirin", "statin", "insulin", "new"], "price": [2, 5, 9, 30]})


def protect_people(session):
    """Protect the people, each row one of them, and return their table."""
    return session.protect(people(), "people", domain=PEOPLE)


def protect_clinic(session):
    """Protect visits and patients, register two public tables, and return the table of visits."""
    table = session.protect(visits(), "visits", unit=PATIENT, max_rows=4, domain=VISITS, rows=600)
    session.protect(patients(), "patients", unit=PATIENT, max_rows=1, domain=PATIENTS, rows=135)
    session.register(wards(), "wards", public=True)
    session.register(drugs(), "drugs", public=True)
    return table
