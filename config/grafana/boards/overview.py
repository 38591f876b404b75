"""The whole cluster on one page: is it well, is it used, is it full."""
from board import RED_ABOVE_0, RED_BELOW_1, Board, figure, heat, lines, table

GETS = 'sum(rate(simm_pages_total{op="get"}))'
HITS = 'sum(rate(simm_pages_total{op="get",result="ok"}))'
CHECKS = 'sum(rate(simm_pages_total{op="exists"}))'
FOUND = 'sum(rate(simm_pages_total{op="exists",result="ok"}))'
FULL = "sum(simm_store_used_bytes) / sum(simm_store_capacity_bytes)"

NOW = ("Now", (
    figure("Daemons that answer", "sum(up)",
           normal="As many as you run.",
           act="See the panel beside."),
    figure("Daemons that do not", "count(up == 0) or vector(0)", steps=RED_ABOVE_0,
           normal="0.",
           act="Start them: `systemctl status`, then \"The daemon does not start\" in "
               "TROUBLESHOOTING.md."),
    figure("Daemons not ready", "count(simm_ready == 0) or vector(0)", steps=RED_ABOVE_0,
           normal="0, but for some seconds after a start.",
           act="`/readyz` of that daemon says why."),
    figure("Leading managers", "sum(simm_manager_leads)", steps=RED_BELOW_1,
           normal="1 in a cluster.",
           act="0: no map is made. See the board of the managers."),
    figure("Hit rate", f"{HITS} / {GETS}", unit="percentunit",
           normal="Depends on the traffic; what matters is that the rate holds.",
           act="If it falls, look at the misses by cause below."),
    figure("Pool in use", FULL, unit="percentunit",
           normal="Up to 98 %: a full pool evicts, which is its normal life.",
           act="See the board of the store for whether more memory would help hits."),
    figure("Objects", "sum(simm_store_objects)",
           normal="Grows until the pool is full.",
           act="A sudden fall is a daemon that restarted without its pool, or a removal."),
    figure("Firing alerts", 'count(ALERTS{alertname=~"Simm.+",alertstate="firing"}) or vector(0)',
           steps=RED_ABOVE_0, unit="short",
           normal="0.",
           act="The table below names them; each alert has its remedy among its annotations."),
))

TROUBLE = ("Trouble", (
    table("Firing alerts", ('ALERTS{alertname=~"Simm.+",alertstate="firing"}',),
          (("alertname", "Alert", ""), ("severity", "Severity", ""), ("instance", "Instance", ""),
           ("member", "Member", ""), ("thread", "Thread", ""), ("rail", "Port", ""),
           ("cause", "Cause", "")), unit="short", width=16,
          normal="Empty. Prometheus has to read `simm-alerts.yml`.",
          act="Do what the alert's annotations say."),
    table("Versions", ("simm_build_info",),
          (("instance", "Instance", ""), ("role", "Role", ""), ("version", "Version", "")),
          unit="short",
          normal="One version, but while the cluster is upgraded.",
          act="Finish the upgrade: restart the daemons that run the older version."),
))

TRAFFIC = ("Traffic of clients", (
    lines("Pages", ("sum by (op) (rate(simm_pages_total))", "{{op}}"), stacked=True,
          normal="Follows the engines' load.",
          act="No pages though engines run: see sessions on the board of the nodes."),
    lines("Bytes", ("sum by (op) (rate(simm_moved_bytes_total))", "{{op}}"), stacked=True,
          normal="Far below what the network carries, with bursts.",
          act="At the network's limit calls get slow: more storage daemons, or more ports."),
    lines("Hit rate", (f"{HITS} / {GETS}", "get"), (f"{FOUND} / {CHECKS}", "exists"),
          unit="percentunit", maximum=1,
          normal="Holds its level. Gets that come after an exists hit nearly always.",
          act="If it falls, the panel below says what became of the pages."),
    lines("Misses by cause",
          ('sum by (result) (rate(simm_pages_total{op=~"get|exists",result!="ok"}))', "{{result}}"),
          stacked=True,
          normal="Only `not_found`.",
          act="\"It works, but objects are missing\" in TROUBLESHOOTING.md has a row for each."),
    lines("Puts that were not stored",
          ('sum by (result) (rate(simm_pages_total{op="put",result!~"ok|exists"}))', "{{result}}"),
          stacked=True,
          normal="0.",
          act="`no_space`: see evictions on the board of the store. `unreachable`: "
              "`simmctl peers`."),
    lines("Batches", ("sum by (op) (rate(simm_batches_total))", "{{op}}"), stacked=True,
          normal="Follows the engines' load; a batch has up to 1,024 pages.",
          act="Many batches of few pages cost more than few batches of many pages."),
    lines("Duration of batches",
          *((f"histogram_quantile({quantile}, sum by (le) "
             "(rate(simm_batch_duration_seconds_bucket)))",
             name) for quantile, name in ((0.5, "half"), (0.99, "99 %"), (0.999, "99.9 %"))),
          width=12,
          normal="Small batches take less than a millisecond, large ones as long as their bytes.",
          act="See the stages on the board of the nodes, then \"It is slow\" in "
              "TROUBLESHOOTING.md."),
    heat("Batches by duration", "sum by (le) (increase(simm_batch_duration_seconds_bucket))",
         width=12, unit="s",
         normal="One or two bands: local calls, and calls over the network.",
         act="A band that appears above the others is one slow path: compare instances."),
))

CAPACITY = ("Capacity", (
    lines("Pool", ("sum(simm_store_used_bytes)", "in use"),
          ("sum(simm_store_capacity_bytes)", "all"),
          normal="In use grows up to 98 % of all, and stays there.",
          act="All falls: a storage daemon is away."),
    lines("In use by instance", ("sum by (instance) (simm_store_used_bytes) / "
                                 "sum by (instance) (simm_store_capacity_bytes)", "{{instance}}"),
          unit="percentunit", maximum=1,
          normal="Instances are about equally full.",
          act="One that stays emptier joined a short time ago, or has few slots."),
    lines("Evicted objects", ("sum(rate(simm_store_evicted_total))", "evicted"),
          ("sum(rate(simm_store_published_total))", "stored"),
          normal="In a full pool as many objects are evicted as are stored.",
          act="Many evictions beside few hits: more memory helps. See the board of the store."),
))

HEALTH = ("Health", (
    lines("Restarts in the last hour", ("changes(process_start_time_seconds[1h])", "{{instance}}"),
          unit="short",
          normal="0.",
          act="`journalctl -u 'simm-*'` says how the former daemon ended."),
    lines("Damaged objects", ("sum by (instance) (rate(simm_server_corrupt_pages_total))",
                              "{{instance}} found at a get"),
          ("sum by (instance) (rate(simm_scrub_damaged_total))",
           "{{instance}} found by the scrubber"),
          ("sum by (instance) (rate(simm_engine_corrupt_pages_total))",
           "{{instance}} found where it arrived"),
          normal="0. A damaged object is a miss, never wrong bytes.",
          act="Memory or network is failing: `simmctl errors`, `edac-util`, replace the host."),
    lines("Managers seen by daemons", ("min by (instance) (simm_cluster_manager_connected)",
                                       "{{instance}}"), maximum=1,
          normal="1.",
          act="0: the daemon goes on with its last map. Start a manager; see its board."),
    lines("The page of metrics",
          ("max by (instance) (simm_metrics_render_seconds)", "{{instance}}"),
          width=6,
          normal="Less than 0.01 s.",
          act="A slow page means a busy control thread: `simmctl top`."),
    lines("Answers of the metrics' port", ("sum by (code) (rate(simm_metrics_requests_total))",
                                           "{{code}}"), width=6,
          normal="Only 200, as often as Prometheus asks.",
          act="Others ask as well: see who can reach `metrics.listen`."),
    lines("Counters without a place", ("max by (instance) (simm_counters_refused_total)",
                                       "{{instance}}"), width=6, unit="short",
          normal="0.",
          act="Numbers are missing. Report it: the table of counters is too small."),
    lines("Not ready", ("1 - min by (instance) (simm_ready)", "{{instance}}"), width=6, maximum=1,
          normal="0, but for some seconds after a start.",
          act="`/readyz` of that daemon says why."),
))

OVERVIEW = Board("simm-overview", "SiMM / Overview",
                 "The whole cluster: is it well, is it used, is it full.",
                 (NOW, TROUBLE, TRAFFIC, CAPACITY, HEALTH))
