"""All planted bugs, room by room."""

import planted_bounding
import planted_engine
import planted_extensions
import planted_failures
import planted_growth
import planted_ledger
import planted_noise
import planted_openness
import planted_ownership
import planted_spend
import planted_thresholds

PLANTED = (
    *planted_noise.PLANTED,
    *planted_spend.PLANTED,
    *planted_ledger.PLANTED,
    *planted_extensions.PLANTED,
    *planted_growth.PLANTED,
    *planted_failures.PLANTED,
    *planted_engine.PLANTED,
    *planted_bounding.PLANTED,
    *planted_thresholds.PLANTED,
    *planted_ownership.PLANTED,
    *planted_openness.PLANTED,
)
