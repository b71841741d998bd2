"""Where tests draw what they drew before, nothing in the package draws from elsewhere."""

import sys

from dpnotebook.privacy.randomness import random_bytes


def test_every_module_draws_from_the_stream_of_the_test(same_noise):
    sources = {
        name: module.random_bytes
        for name, module in sys.modules.items()
        if name.startswith("dpnotebook.") and hasattr(module, "random_bytes")
    }
    assert len(sources) >= 3
    assert len(set(sources.values())) == 1
    assert random_bytes not in sources.values()
