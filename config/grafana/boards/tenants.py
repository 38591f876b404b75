"""Tenants: what each moves and holds, and whose limits are met."""
from board import Board, lines


def of_tenants(title, *queries, **more):
    return lines(title, *((f"sum by (tenant) ({expression})", "{{tenant}}" + words)
                          for expression, words in queries), **more)


USE = ("What tenants do", (
    lines("Bytes", ("sum by (tenant, how) (rate(simm_tenant_bytes_total))", "{{tenant}} {{how}}"),
          stacked=True,
          normal="Follows each tenant's load.",
          act="One tenant crowds out others: `tenants[].bandwidth_max` or `tenants[].weight`."),
    lines("Hit rate of gets at the store",
          ("sum by (tenant) (rate(simm_store_tenant_reads_total)) / "
           "(sum by (tenant) (rate(simm_store_tenant_reads_total)) + "
           "sum by (tenant) (rate(simm_store_tenant_read_misses_total)))", "{{tenant}}"),
          unit="percentunit", maximum=1,
          normal="Each tenant holds its level.",
          act="One falls while its evictions grow: a larger quota or weight."),
    lines("Hit rate of exists at the store",
          ("sum by (tenant) (rate(simm_store_tenant_exists_hits_total)) / "
           "(sum by (tenant) (rate(simm_store_tenant_exists_hits_total)) + "
           "sum by (tenant) (rate(simm_store_tenant_exists_misses_total)))", "{{tenant}}"),
          unit="percentunit", maximum=1,
          normal="The share of prompts that were seen before.",
          act="As for the panel beside."),
    lines("Held for a limit", ("sum by (tenant, limit) (rate(simm_tenant_held_total))",
                               "{{tenant}} {{limit}}"),
          normal="0, or some in bursts.",
          act="`bytes`: `tenants[].in_flight_bytes_max`. `bandwidth`: `tenants[].bandwidth_max`. "
              "`operations`: `engine.operations_max`."),
    of_tenants("Sessions", ("simm_sessions", ""),
               normal="One for each engine process.",
               act="Missing: `simmctl sessions --ended` has the reason."),
    of_tenants("Memory of clients in regions", ("simm_region_bytes", ""),
               normal="The host pools of the tenant's engines.",
               act="At `memory.map_bytes_tenant_max` the next region is refused."),
))

HOLD = ("What tenants hold", (
    of_tenants("Memory in use", ("simm_store_tenant_used_bytes", ""), stacked=True,
               normal="Together up to the whole pool.",
               act="A tenant above its fair share gives way first when others want theirs."),
    lines("In use, by the fair share",
          ("sum by (tenant) (simm_store_tenant_used_bytes) / "
           "sum by (tenant) (simm_store_tenant_fair_bytes)", "{{tenant}}"), unit="percentunit",
          normal="About 100 % for all, once the pool is full and all are busy.",
          act="Far below 100 % for a busy tenant: its objects are evicted for its quota, or "
              "expire."),
    lines("In use, by the quota",
          ("sum by (tenant) (simm_store_tenant_used_bytes) / "
           "sum by (tenant) (simm_store_tenant_quota_bytes)", "{{tenant}}"), unit="percentunit",
          normal="Below 100 %.",
          act="At 100 % the tenant evicts its own objects: raise `tenants[].quota_percent`."),
    of_tenants("Objects", ("simm_store_tenant_objects", ""), stacked=True,
               normal="Grows until the pool is full.",
               act="A sudden fall: removed by the tenant, or evicted (below)."),
    of_tenants("Bytes of objects", ("simm_store_tenant_payload_bytes", ""), stacked=True,
               normal="Close to the memory in use.",
               act="Far below it: the tenant's objects are small."),
    lines("Weight", ("max by (tenant) (simm_store_tenant_weight)", "{{tenant}}"),
          normal="The configured weight.",
          act="Nothing: `tenants[].weight` decides, and all daemons should have the same."),
    of_tenants("Leased", ("simm_store_tenant_leased_bytes", ""),
               normal="Below half of the tenant's share.",
               act="At the budget its oldest leases end early: shorter leases, or a larger share."),
    of_tenants("Pinned", ("simm_store_tenant_pinned_bytes", ""),
               normal="What the tenant pins, such as system prompts.",
               act="At `store.pin_budget_percent` the next pin is refused."),
    of_tenants("Evicted objects", ("rate(simm_store_tenant_evicted_total)", ""),
               normal="In step with what the tenant stores, once the pool is full.",
               act="One tenant loses far more than it stores: others take their share back."),
    of_tenants("Evicted bytes", ("rate(simm_store_tenant_evicted_bytes_total)", ""), width=24,
               normal="In step with what the tenant stores, once the pool is full.",
               act="As for the panel beside."),
))

TENANTS = Board("simm-tenants", "SiMM / Tenants",
                "What each tenant moves and holds, and whose limits are met.",
                (USE, HOLD), chosen=(("tenant", "simm_sessions"),))
