"""SimmTieringSpec: vLLM's own TieringOffloadingSpec, for a vLLM that takes no `module_path` in
`secondary_tiers`. To import this module makes the tier's type "simm" known."""

from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

TIER_TYPE = "simm"

try:
    SecondaryTierFactory.register_tier(TIER_TYPE, "simm.vllm.tier", "SimmTier")
except ValueError:
    pass  # it is known already


class SimmTieringSpec(TieringOffloadingSpec):
    """Nothing differs from vLLM's."""
