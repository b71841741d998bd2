"""What is published of a session: a report that opens anywhere, its numbers as files, and an entry for the registry."""
