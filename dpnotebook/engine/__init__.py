"""Where true answers are computed; nothing on the way to a plan imports this."""
