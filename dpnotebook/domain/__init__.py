"""Domains: which columns of a table may be asked about, and the levels of each, declared from outside the data."""

from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.bins import Bins
from dpnotebook.domain.categorical import Boolean, Categories
from dpnotebook.domain.dates import Dates
from dpnotebook.domain.numeric import Range
from dpnotebook.domain.schema import Domain, attribute_from_json
from dpnotebook.domain.times import Times

__all__ = ["Attribute", "Bins", "Boolean", "Categories", "Dates", "Domain", "Range", "Times", "attribute_from_json"]
