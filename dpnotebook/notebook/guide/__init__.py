"""A guide that protects a table: what has to be declared, why it is not looked up in the data, and the code for it."""
