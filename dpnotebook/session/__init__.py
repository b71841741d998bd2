"""One question from plan to reveal: what is asked, planned, charged, measured, recorded and shown."""
