"""When each alert fires, and when it does not: series as promtool's unit tests write them.

A reading is taken each minute. With the series `fires` the alert fires from `since` + its `for` on,
and not at the evaluation before. `labels` and `value` are those of the alert then. `calm` are lists
of series with which it does not fire.
"""
import dataclasses

NODE = 'job="simm",instance="a"'
BOTH = 'job="simm",instance="b"'


@dataclasses.dataclass(frozen=True)
class Case:
    """One alert; `since` in seconds is when its expression becomes true."""
    alert: str
    fires: dict
    calm: tuple
    labels: dict
    since: int = 0
    value: str = ""


def on(metric, labels=""):
    return f"{metric}{{{NODE}{',' if labels else ''}{labels}}}"


def counter_case(alert, metric, labels="", kept=None, calm=()):
    """An alert on a counter that grows at all: fires with one event, not with many of old."""
    series = on(metric, labels)
    return Case(alert, {series: "0x3 1x40"}, ({series: "7x60"},) + tuple(calm),
                {"instance": "a"} | (kept or {}), since=240)


def pages(result, values, job="simm"):
    return {f'simm_pages_total{{job="{job}",instance="a",op="get",result="{result}"}}': values}


def hits(found, missed):
    """A day of 30 gets a second that mostly hit, then two hours with so many hits and misses."""
    return (pages("ok", f"0+1500x1440 2160000+{60 * found}x120")
            | pages("not_found", f"0+300x1440 432000+{60 * missed}x120"))


def evictions(soon, late):
    metric = "simm_store_evicted_by_age_total"
    return {on(metric, 'agent="0",up_to="1s"'): f"0+{soon}x90",
            on(metric, 'agent="0",up_to="1000s"'): f"0+{late}x90"}


def inline(inside, all_together):
    return {on("simm_store_evicted_inline_total", 'agent="0"'): f"0+{inside}x90",
            on("simm_store_evicted_total", 'agent="0"'): f"0+{all_together}x90"}


def durations(fast, slow):
    """Batches of at most half a second, and of at most two."""
    bucket = "simm_batch_duration_seconds_bucket"
    return {on(bucket, 'le="0.5"'): f"0+{fast}x90", on(bucket, 'le="2"'): f"0+{fast + slow}x90",
            on(bucket, 'le="+Inf"'): f"0+{fast + slow}x90"}


def bytes_of(tcp, rdma, port=1):
    return {on("simm_tcp_sent_bytes_total", 'agent="0"'): f"0+{tcp}x60",
            on("simm_rdma_written_bytes_total", 'agent="0"'): f"0+{rdma}x60",
            on("simm_rdma_port_open", 'rail="mlx5_0/1"'): f"{port}x60"}


def members(values):
    return {on("simm_manager_members", 'role="storage",state="live"'): values}


def away(live, age):
    return {on("simm_member_live", 'member="storage/s"'): live,
            on("simm_member_heard_age_seconds", 'member="storage/s"'): age}


DAEMONS = (
    Case("SimmDaemonDown", {on("up"): "0x60"}, ({on("up"): "1x60"}, {on("up"): "0 1x60"},
                                                {'up{job="other",instance="a"}': "0x60"}),
         {"instance": "a", "job": "simm"}),
    Case("SimmNoDaemons", {'up{job="other",instance="a"}': "1x60"},
         ({on("up"): "0x60"}, {'up{job="infra/simm",instance="a"}': "1x60"}), {}),
    Case("SimmNotReady", {on("simm_ready"): "0x60"}, ({on("simm_ready"): "1x60"},
                                                      {on("simm_ready"): "0 0 1x60"}),
         {"instance": "a", "job": "simm"}),
    Case("SimmRestartsOften", {on("process_start_time_seconds"): "1 2 3 4x60"},
         ({on("process_start_time_seconds"): "1 2 3x60"},), {"instance": "a", "job": "simm"},
         since=180, value="3"),
    Case("SimmThreadHangs", {on("simm_thread_turn_age_seconds", 'thread="data0"'): "11x60"},
         ({on("simm_thread_turn_age_seconds", 'thread="data0"'): "10x60"},),
         {"instance": "a", "job": "simm", "thread": "data0"}),
    Case("SimmThreadSlow", {on("simm_thread_long_turns_total", 'thread="data0"'): "0+20x60"},
         ({on("simm_thread_long_turns_total", 'thread="data0"'): "0+10x60"},),
         {"instance": "a", "thread": "data0"}, since=195),
    Case("SimmDescriptorsShort",
         {on("process_open_fds"): "950x60", on("process_max_fds"): "1000x60"},
         ({on("process_open_fds"): "900x60", on("process_max_fds"): "1000x60"},),
         {"instance": "a", "job": "simm"}),
    Case("SimmLimitReached",
         {on("simm_limit_reached_total", 'limit="sessions_per_socket"'): "0+1x60"},
         ({on("simm_limit_reached_total", 'limit="sessions_per_socket"'): "0 1x60"},
          {on("simm_limit_reached_total", 'limit="sessions_per_socket"'): "9x60"}),
         {"instance": "a", "limit": "sessions_per_socket"}, since=60),
    Case("SimmCountersMissing", {on("simm_counters_refused_total"): "1x60"},
         ({on("simm_counters_refused_total"): "0x60"},), {"instance": "a", "job": "simm"}),
    Case("SimmVersionsDiffer",
         {on("simm_build_info", 'version="1",role="node"'): "1x1500",
          f'simm_build_info{{{BOTH},version="2",role="node"}}': "1x1500"},
         ({on("simm_build_info", 'version="1",role="node"'): "1x1500",
           f'simm_build_info{{{BOTH},version="1",role="storage"}}': "1x1500"},),
         {"job": "simm"}, value="2"),
)

INTEGRITY = (
    counter_case("SimmCorruptPages", "simm_server_corrupt_pages_total", 'agent="0"',
                 {"job": "simm", "agent": "0"}),
    counter_case("SimmScrubberFoundDamage", "simm_scrub_damaged_total", 'agent="0",what="payload"',
                 {"what": "payload"}),
    counter_case("SimmCorruptAnswers", "simm_engine_corrupt_pages_total", 'agent="0"'),
    Case("SimmKeptTableDamaged",
         {on("simm_store_lost_at_recovery_total", 'agent="0",cause="damaged"'): "1x60"},
         ({on("simm_store_lost_at_recovery_total", 'agent="0",cause="expired"'): "9x60",
           on("simm_store_lost_at_recovery_total", 'agent="0",cause="damaged"'): "0x60"},),
         {"instance": "a", "cause": "damaged"}),
    counter_case("SimmFencesOverdue", "simm_engine_fences_overdue_total", 'agent="0"',
                 {"job": "simm", "agent": "0"}),
)

SERVICE = (
    # Some hits less, the same hits, and a collapse in which next to nothing is asked for.
    Case("SimmHitRateCollapsed", hits(4, 11), (hits(8, 7), hits(25, 5), hits(2, 6)),
         {"job": "simm"}, since=88200),
    Case("SimmTimeouts", {on("simm_engine_timeouts_total", 'agent="0"'): "0+12x60"},
         ({on("simm_engine_timeouts_total", 'agent="0"'): "0+5x60"},), {"instance": "a"},
         since=165),
    Case("SimmBatchesSlow", durations(90, 10),
         (durations(988, 12), durations(600, 0)),
         {"instance": "a"}, since=60),
    Case("SimmHeldTooLong", {on("simm_session_held_timeouts_total", 'agent="0"'): "0+1x60"},
         ({on("simm_session_held_timeouts_total", 'agent="0"'): "5x60"},), {"instance": "a"},
         since=60),
    Case("SimmPutsFindNoRoom", {on("simm_server_no_space_pages_total", 'agent="0"'): "0+1x60"},
         ({on("simm_server_no_space_pages_total", 'agent="0"'): "5x60"},), {"instance": "a"},
         since=60),
    Case("SimmLeaseLoss",
         {on("simm_store_lost_in_lease_total", 'agent="0",cause="lease_budget"'): "0+1x60"},
         ({on("simm_store_lost_in_lease_total", 'agent="0",cause="removed"'): "0+9x60",
           on("simm_store_lost_in_lease_total", 'agent="0",cause="lease_budget"'): "9x60"},),
         {"instance": "a", "cause": "lease_budget"}, since=60),
    Case("SimmEvictedSoon", evictions(120, 60), (evictions(60, 120), evictions(12, 6)),
         {"instance": "a"}, since=615),
    Case("SimmEvictedInPuts", inline(60, 180), (inline(30, 180), inline(6, 6)), {"instance": "a"},
         since=615),
    counter_case("SimmSessionsPoisoned", "simm_session_poisonings_total",
                 'agent="0",reason="ring_cursor"', {"reason": "ring_cursor"}),
)

CLUSTER = (
    Case("SimmNoLeader", {on("simm_manager_leads"): "0x60"},
         ({on("simm_manager_leads"): "0x60", f"simm_manager_leads{{{BOTH}}}": "1x60"},),
         {"job": "simm"}),
    Case("SimmMapNotStored", {on("simm_manager_store_failing"): "1x60"},
         ({on("simm_manager_store_failing"): "0x60"},), {"instance": "a", "job": "simm"}),
    Case("SimmManagerCutOff", {on("simm_manager_cut_off"): "1x60"},
         ({on("simm_manager_cut_off"): "0x60"},), {"instance": "a", "job": "simm"}),
    Case("SimmManagerAway", {on("simm_cluster_manager_connected"): "0x60"},
         ({on("simm_cluster_manager_connected"): "1x60"},), {"instance": "a", "job": "simm"}),
    Case("SimmMemberAway", away("0x60", "6+60x60"), (away("1x60", "9x60"), away("0x60", "4x60")),
         {"instance": "a", "job": "simm", "member": "storage/s"}),
    Case("SimmMembersLost", members("4x9 2x20"), (members("4x60"), members("2x9 4x20")),
         {"job": "simm", "role": "storage"}, since=600, value="2"),
    Case("SimmMapOld", {on("simm_cluster_epoch"): "7x60", f"simm_cluster_epoch{{{BOTH}}}": "8x60"},
         ({on("simm_cluster_epoch"): "8x60", f"simm_cluster_epoch{{{BOTH}}}": "8x60"},),
         {"instance": "a", "job": "simm"}),
    Case("SimmAgentsBehind", {on("simm_cluster_epoch"): "8x60",
                              on("simm_cluster_agents_epoch"): "7x60"},
         ({on("simm_cluster_epoch"): "8x60", on("simm_cluster_agents_epoch"): "8x60"},),
         {"instance": "a", "job": "simm"}),
)

NETWORK = (
    Case("SimmPeerUnreachable", {on("simm_peers", 'state="unreachable"'): "3x60"},
         ({on("simm_peers", 'state="unreachable"'): "0x60", on("simm_peers", 'state="partly"'):
           "3x60"},), {"instance": "a", "job": "simm", "state": "unreachable"}, value="3"),
    Case("SimmNetworkLoses", {on("simm_cluster_links_lost_total", 'cause="silent"'): "0+1x60"},
         ({on("simm_cluster_links_lost_total", 'cause="silent"'): "0 1 2x60"},
          {on("simm_cluster_links_lost_total", 'cause="closed"'): "0+9x60"}),
         {"instance": "a", "cause": "silent"}, since=195),
    Case("SimmStrangersKnock", {on("simm_cluster_hellos_total", 'result="refused"'): "0+1x60"},
         ({on("simm_cluster_hellos_total", 'result="accepted"'): "0+9x60",
           on("simm_cluster_hellos_total", 'result="refused"'): "9x60"},), {"instance": "a"},
         since=60),
    Case("SimmRailDown", {on("simm_rdma_port_open", 'rail="mlx5_0/1"'): "0x60"},
         ({on("simm_rdma_port_open", 'rail="mlx5_0/1"'): "1x60"},),
         {"instance": "a", "job": "simm", "rail": "mlx5_0/1"}),
    counter_case("SimmRegistrationsRefused", "simm_rdma_registration_failures_total",
                 'rail="mlx5_0/1"', {"job": "simm", "rail": "mlx5_0/1"}),
    Case("SimmRdmaLoses", {on("simm_cluster_queue_pairs_lost_total", 'cause="silent"'): "0+1x60"},
         ({on("simm_cluster_queue_pairs_lost_total", 'cause="silent"'): "0 1 2x60"},),
         {"instance": "a"}, since=195),
    Case("SimmTcpInsteadOfRdma", bytes_of(6 * 10**9, 10**6),
         (bytes_of(6 * 10**9, 12 * 10**9), bytes_of(6 * 10**9, 0, port=0), bytes_of(10**8, 0)),
         {"instance": "a"}, since=75),
)

GPUS = (
    Case("SimmGpuHelperDown", {on("simm_gpu_helper_running", 'gpu="0"'): "0x60"},
         ({on("simm_gpu_helper_running", 'gpu="0"'): "1x60"},),
         {"instance": "a", "job": "simm", "gpu": "0"}),
    Case("SimmGpuHelperRestarts", {on("simm_gpu_helper_restarts_total", 'gpu="0"'): "0+1x60"},
         ({on("simm_gpu_helper_restarts_total", 'gpu="0"'): "0 1x60"},),
         {"instance": "a", "job": "simm", "gpu": "0"}, since=135),
)

CASES = DAEMONS + INTEGRITY + SERVICE + CLUSTER + NETWORK + GPUS
