"""What a session has spent and has left, as a live view and as a page."""
