"""Planning: from a question and the record of past answers to what must be measured, without reading data."""
