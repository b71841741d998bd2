"""What is sent to PostgreSQL and to Spark, as trees, and what comes back; these wait for the servers."""

import pytest
from golden.comparison import first_difference
from golden.everything import SERVERS
from golden.files import as_read, read

pytestmark = pytest.mark.fresh_noise  # what is random is fixed by `golden.seam`


SLOW = {"spark"}  # two minutes: what is sent there is compared with the other engines elsewhere


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in SERVERS])
def test_what_is_sent_to_servers_is_what_it_was(name, request):
    said = first_difference(read(name), as_read(SERVERS[name](request.getfixturevalue(name))), name)
    assert said is None, said
