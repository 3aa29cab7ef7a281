from __future__ import annotations

from collections.abc import Iterator

import pytest
from campaign import Campaign, Run


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """Starts the runs of all selected tests, in the order of the tests."""
    campaign = Campaign(tmp_path_factory.mktemp("campaign"))
    for item in request.session.items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        campaign.start(value for value in parameters if isinstance(value, Run))
    yield campaign
    campaign.stop()
