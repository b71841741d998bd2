"""The durable record of a session: what was charged, what was answered, and proof that nothing was changed since."""

from dpnotebook.ledger.audit import Audit, audit_file
from dpnotebook.ledger.ledger import Ledger
from dpnotebook.ledger.releases import Charge, Record

__all__ = ["Audit", "Charge", "Ledger", "Record", "audit_file"]
