"""What is sent to PostgreSQL and to Spark, as trees, and what comes back; these wait for the servers."""

import pytest
from golden.comparison import first_difference
from golden.everything import SERVERS
from golden.files import as_read, read

pytestmark = pytest.mark.fresh_noise  # what is random is fixed by `golden.seam`


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_sent_to_servers_is_what_it_was(name, request):
    said = first_difference(read(name), as_read(SERVERS[name](request.getfixturevalue(name))), name)
    assert said is None, said
