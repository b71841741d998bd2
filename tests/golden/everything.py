"""What there are golden files of."""

from functools import partial

from golden.play import played
from golden.stories import all_stories


def makers():
    """Return by name of the file what makes its content again."""
    return {name: partial(played, story) for name, story in all_stories().items()}
