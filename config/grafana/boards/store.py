"""The store and its eviction: what is in it, what left, and whether more memory would help."""
from board import Board, bars, lines
from boards.common import counts


def now(title, *names, **more):
    """Gauges by instance: pairs of a metric and what it counts."""
    return lines(title, *((f"sum by (instance) ({name})", "{{instance}} " + words)
                          for name, words in names), **more)


FULL = ("How full", (
    now("Memory", ("simm_store_used_bytes", "in use"), ("simm_store_capacity_bytes", "all"),
        normal="In use grows up to 98 % of all, and stays there.",
        act="Nothing: a full store evicts, which is its normal life."),
    now("Free and payload", ("simm_store_free_bytes", "free"),
        ("simm_store_payload_bytes", "bytes of objects"),
        normal="A full store keeps up to 64 MiB of each shard free.",
        act="Payload far below memory in use: objects are small, or much is being written."),
    now("Kept from eviction", ("simm_store_leased_bytes", "leased"),
        ("simm_store_pinned_bytes", "pinned"),
        normal="Leased is below half of the memory.",
        act="At `store.lease_budget_percent` leases end early: shorter leases, or more memory."),
    now("Objects", ("simm_store_objects", "objects"), ("simm_store_groups", "groups"),
        normal="Grow until the memory is full.",
        act="A sudden fall is a restart without the pool, a removal, or slots that moved."),
    now("On their way", ("simm_store_reserved_objects", "being written"),
        ("simm_store_lingering_objects", "gone, still being read"),
        normal="Some, as long as there is traffic; 0 when idle.",
        act="If they stay without traffic, a connection hangs: `simmctl peers`."),
    now("Pinned groups", ("simm_store_pinned_groups", "groups"),
        normal="What engines pin, such as system prompts.",
        act="`store.pin_budget_percent` bounds their memory."),
))

LOOKUPS = ("Asked for, stored, removed", (
    lines("Found", *(('sum by (instance) (rate(simm_store_lookups_total{op="%s",result="hit"})) / '
                      'sum by (instance) (rate(simm_store_lookups_total{op="%s"}))' % (op, op),
                      "{{instance}} " + op) for op in ("get", "exists")),
          unit="percentunit", maximum=1,
          normal="Holds its level; gets that follow an exists find nearly all.",
          act="If it falls while evictions grow, more memory helps."),
    counts("Stored", ("simm_store_published_total", "stored"),
           ("simm_store_replacements_total", "in place of an older one"),
           ("simm_store_already_present_total", "was there"),
           normal="Engines put what they could not find.",
           act="Much was there already: engines put without asking, which moves no bytes."),
    counts("Left otherwise than by eviction", ("simm_store_removed_total", "removed"),
           ("simm_store_expired_total", "time to live was over"),
           ("simm_store_abandoned_total", "never finished"),
           ("simm_store_disowned_total", "slot went to another daemon"),
           normal="What clients ask for.",
           act="`slot went`: a daemon joined or left. `never finished`: clients died or gave up."),
))

EVICTION = ("Eviction", (
    counts("Evicted objects", ("simm_store_evicted_total", "all"),
           ("simm_store_evicted_inline_total", "inside a put"),
           ("simm_store_evicted_for_quota_total", "for a tenant's quota"),
           normal="As many as are stored, once the memory is full.",
           act="More than a few percent inside puts, for long: lower "
               "`store.eviction_watermark_percent`."),
    counts("Evicted bytes", ("simm_store_evicted_bytes_total", "evicted"),
           normal="As many as are stored.",
           act="As for the panel beside."),
    lines("Lost inside a lease", ("sum by (instance, cause) (rate(simm_store_lost_in_lease_total))",
                                  "{{instance}} {{cause}}"),
          normal="0 but for what clients remove or replace.",
          act="`lease_budget`: too much is leased. More memory, or shorter leases."),
    bars("Evicted: time since the last use",
         "sum by (up_to) (increase(simm_store_evicted_by_age_total[6h]))", "{{up_to}}",
         normal="Most objects leave long after their last use.",
         act="Most leave within seconds or minutes: more memory helps hits."),
    bars("Used again: time since the use before",
         "sum by (up_to) (increase(simm_store_reused_by_age_total[6h]))", "{{up_to}}",
         normal="Objects are used again sooner than they are evicted.",
         act="Later than they are evicted (panel beside): what is wanted leaves too early. "
             "More memory helps."),
    bars("Evicted: how often used",
         "sum by (up_to) (increase(simm_store_evicted_by_uses_total[6h]))",
         "{{up_to}}",
         normal="Most were used once.",
         act="Many were used often: the pool is far too small for its traffic."),
))

REFUSED = ("Refused", (
    counts("Puts", ("simm_store_space_waits_total", "had to wait"),
           ("simm_store_refused_no_space_total", "no space"),
           ("simm_store_refused_tenants_total", "too many tenants"),
           normal="Some waits in bursts.",
           act="`no space`: the object is too large, its tenant's quota too small, or all is "
               "leased."),
    counts("Pins", ("simm_store_pins_refused_total", "refused"),
           ("simm_store_pins_outgrown_total", "ended, group too large"),
           normal="0.",
           act="Raise `store.pin_budget_percent`, or pin less."),
    counts("Damaged objects dropped", ("simm_store_quarantined_total", "all"),
           ("simm_store_damaged_records_total", "record damaged"),
           normal="0.",
           act="Memory is failing: `simmctl errors`, `edac-util`, replace the host."),
))

SPACE = ("Space", (
    now("Holes", ("simm_store_holes", "holes"),
        normal="Varies with the lengths of objects.",
        act="Nothing, as long as the largest hole is large."),
    now("Largest hole", ("simm_store_largest_hole_bytes", "largest"),
        ("simm_store_movable_bytes", "objects that can move"),
        normal="Larger than the objects that are put.",
        act="Small for long beside much free memory: puts of long objects evict more than they "
            "need."),
    counts("Objects moved to join holes", ("simm_store_moved_total", "objects"),
           normal="0, with bursts after changes of the lengths.",
           act="If it never ends, objects of very different lengths come in turns."),
    counts("Bytes moved to join holes", ("simm_store_moved_bytes_total", "bytes"),
           normal="As for the panel beside.",
           act="As for the panel beside."),
    bars("Objects by length", "sum by (up_to) (simm_store_objects_by_length)", "{{up_to}}",
         normal="A few lengths, one for each model and page size.",
         act="Many tiny objects: the engine's pages are small, and each costs a record."),
    bars("Memory by length", "sum by (up_to) (simm_store_bytes_by_length)", "{{up_to}}",
         normal="As for the panel beside.",
         act="As for the panel beside."),
))

FOLLOWED = ("Events of keys", (
    lines("Events", ("sum by (instance, result) (rate(simm_key_events_total))",
                     "{{instance}} {{result}}"),
          normal="0 while nobody follows; else what is stored and what leaves.",
          act="`lost`: the control thread has no CPU. Followers are told of a gap."),
    lines("Gaps", ("sum by (instance, where) (rate(simm_key_event_gaps_total))",
                   "{{instance}} {{where}}"),
          normal="0.",
          act="`follower`: a publisher or `simmctl events --keys` reads too slowly. Give it CPU."),
    now("Followers", ("simm_key_event_subscribers", "followers"),
        normal="One for each publisher.",
        act="More than are expected: look who runs `simmctl events --keys`. At most 8 may."),
))

STORE = Board("simm-store", "SiMM / Store and eviction",
              "What is in the pools, what left them, and whether more memory would help.",
              (FULL, LOOKUPS, EVICTION, REFUSED, SPACE, FOLLOWED),
              instances="simm_store_capacity_bytes")
