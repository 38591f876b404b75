"""The network between daemons: peers, TCP, RDMA and its ports."""
from board import Board, lines
from boards.common import counts

PEERS = ("Peers", (
    lines("Peers by state", ("sum by (state) (simm_peers)", "{{state}}"), stacked=True,
          normal="All are `connected`.",
          act="`simmctl peers` says why one is not; then \"The daemon runs, the cluster does "
              "not\" in TROUBLESHOOTING.md."),
    lines("Missing connections", ('sum by (instance, peer) (simm_peer_connections{state="missing"})'
                                  " > 0", "{{instance}} to {{peer}}"),
          normal="None.",
          act="Many instances miss one peer: look there. One misses many: look at that instance."),
    lines("Incoming connections", ("sum by (instance) (simm_cluster_incoming_connections)",
                                   "{{instance}}"),
          normal="One for each data agent of each other daemon and shard.",
          act="Fewer: some daemon does not reach this one."),
    lines("Connections lost", ("sum by (instance, cause) (rate(simm_cluster_links_lost_total))",
                               "{{instance}} {{cause}}"),
          normal="0 but when daemons restart.",
          act="`silent`: a network that drops packets, or busy CPUs. `stalled`: an overloaded "
              "peer, or a wrong MTU. `superseded`: two daemons of one name."),
    counts("Connections refused", ("simm_cluster_links_refused_total", "here"),
           ("simm_cluster_links_refused_by_peer_total", "by a peer"),
           ("simm_cluster_links_made_room_total", "ended to make room"),
           ("simm_cluster_links_returned_total", "peers that are back"),
           normal="0.",
           act="Daemons have no room for connections: fewer data agents need fewer."),
    lines("Attempts to connect", ("sum by (instance, result) (rate(simm_cluster_dials_total))",
                                  "{{instance}} {{result}}"),
          normal="0 but when daemons come.",
          act="`failed` goes on: the address is wrong (`cluster.advertise`), or a firewall."),
    lines("Connections of others by the end of their hello",
          ("sum by (instance, result) (rate(simm_cluster_hellos_total))",
           "{{instance}} {{result}}"),
          width=24,
          normal="Only `accepted`.",
          act="`refused`: another secret or version, or a stranger. `evicted`: somebody connects "
              "and says nothing."),
))

TCP = ("TCP", (
    counts("Bytes over TCP", ("simm_tcp_sent_bytes_total", "sent"),
           ("simm_tcp_received_bytes_total", "received"),
           normal="All traffic without RDMA; little beside RDMA.",
           act="Much where RDMA is expected: \"It runs over TCP, though there are NICs\" in "
               "TROUBLESHOOTING.md."),
    counts("Sends without a copy", ("simm_tcp_uncopied_sends_total", "asked for"),
           ("simm_tcp_copied_after_all_total", "copied after all"),
           normal="None is copied after all, but over loopback.",
           act="The NIC or its driver can not send in place; large gets cost more CPU."),
    lines("Share of bytes that go by RDMA",
          ("(sum by (instance) (rate(simm_rdma_read_bytes_total)) + "
           "sum by (instance) (rate(simm_rdma_written_bytes_total))) / "
           "(sum by (instance) (rate(simm_rdma_read_bytes_total)) + "
           "sum by (instance) (rate(simm_rdma_written_bytes_total)) + "
           "sum by (instance) (rate(simm_tcp_sent_bytes_total)) + "
           "sum by (instance) (rate(simm_tcp_received_bytes_total)))", "{{instance}}"),
          unit="percentunit", maximum=1,
          normal="Near 100 % where there are RDMA ports; of storage daemons.",
          act="As for the first panel of this row."),
))

RDMA = ("RDMA", (
    counts("Bytes", ("simm_rdma_read_bytes_total", "read (puts)"),
           ("simm_rdma_written_bytes_total", "written (gets)"),
           ("simm_rdma_inline_bytes_total", "inside messages"),
           normal="Follows the traffic.",
           act="0 beside TCP traffic: \"It runs over TCP, though there are NICs\" in "
               "TROUBLESHOOTING.md."),
    counts("Parts of messages", ("simm_rdma_sent_parts_total", "sent"),
           ("simm_rdma_received_parts_total", "received"),
           ("simm_rdma_asked_again_total", "asked for again over another port"),
           normal="None is asked for again.",
           act="A port fails: see the ports below."),
    lines("Queue pairs lost",
          ("sum by (instance, cause) (rate(simm_cluster_queue_pairs_lost_total))",
           "{{instance}} {{cause}}"),
          normal="0 but when daemons restart.",
          act="`silent`: the network loses packets, and RoCE wants one that loses none."),
    counts("Queue pairs refused", ("simm_cluster_queue_pairs_refused_total", "refused"),
           ("simm_cluster_queue_pairs_made_room_total", "ended to make room"), width=12,
           normal="0.",
           act="The device has no room, or locked memory is short: `simmctl errors`."),
    lines("Ports that can be used", ("min by (instance, rail) (simm_rdma_port_open)",
                                     "{{instance}} {{rail}}"), maximum=1, width=12,
          normal="1.",
          act="0: `rail_trouble` in `simmctl nics` says why. The port is tried again every 2 s."),
))

MEMORY = ("Memory that ports know", (
    lines("Registered", ("sum by (instance, rail) (simm_rdma_registered_bytes)",
                         "{{instance}} {{rail}} registered"),
          ("sum by (instance, rail) (simm_rdma_wanted_bytes)", "{{instance}} {{rail}} wanted"),
          normal="Both lines are one, but for minutes after a start.",
          act="If a gap stays, see the panel beside."),
    lines("Refused", ("sum by (instance, rail) (simm_rdma_failed_bytes)", "{{instance}} {{rail}}"),
          normal="0.",
          act="Raise locked memory: `LimitMEMLOCK=infinity`. Meanwhile this memory goes over TCP."),
    lines("Registrations", ("sum by (instance, rail) (simm_rdma_registrations)",
                            "{{instance}} {{rail}}"),
          normal="One for each GiB.",
          act="Nothing: this shows how far a start is."),
    lines("Registrations refused",
          ("sum by (instance, rail) (rate(simm_rdma_registration_failures_total))",
           "{{instance}} {{rail}}"),
          normal="0.",
          act="`simmctl errors` says why; mostly locked memory."),
    lines("Ports lost", ("sum by (instance, rail) (rate(simm_rdma_port_lost_total))",
                         "{{instance}} {{rail}}"),
          normal="0.",
          act="The device was reset or taken out: the kernel's log."),
    lines("Queue pairs that do not end",
          ("sum by (instance, rail) (rate(simm_rdma_ends_refused_total))",
           "{{instance}} {{rail}} refused"),
          ("sum by (instance, rail) (rate(simm_rdma_ends_given_up_total))",
           "{{instance}} {{rail}} given up"),
          normal="0.",
          act="Requests wait for the fence: look at the port and its driver."),
))

NETWORK = Board("simm-network", "SiMM / Network",
                "Connections between daemons, TCP, RDMA, and the ports of NICs.",
                (PEERS, TCP, RDMA, MEMORY))
