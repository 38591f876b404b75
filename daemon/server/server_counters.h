// What a server counts. Thread: written by the server's data agent.
#pragma once

#include <string_view>

#include "daemon/base/counter_group.h"

namespace simm::server {

struct ServerCounters : base::CounterGroup {
  ServerCounters() = default;  // counts into unread cells
  // `prefix`: "server.0" of the data agent 0.
  ServerCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  base::Counter requests = counter(
      "requests", {"simm_server_requests_total", "Messages that a shard of this daemon took."});
  base::Counter refused_requests = counter(
      "refused_requests",
      {"simm_server_refused_requests_total", "Messages refused because too many were under way."});
  base::Counter get_pages =
      counter("get_pages",
              {"simm_server_pages_total", "Pages that a shard delivered or stored.", "op=get"});
  base::Counter put_pages = counter("put_pages", {"simm_server_pages_total", "", "op=put"});
  base::Counter get_bytes =
      counter("get_bytes", {"simm_server_bytes_total", "Bytes of those pages.", "op=get"});
  base::Counter put_bytes = counter("put_bytes", {"simm_server_bytes_total", "", "op=put"});
  base::Counter misses =
      counter("misses", {"simm_server_misses_total", "Pages to get that were not there."});
  base::Counter size_mismatches =
      counter("size_mismatches",
              {"simm_server_size_mismatches_total", "Pages to get that were of another length."});
  base::Counter verified =
      counter("verified", {"simm_server_verified_pages_total",
                           "Pages whose checksum was compared before they were delivered."});
  base::Counter corrupt =
      counter("corrupt", {"simm_server_corrupt_pages_total",
                          "Pages whose checksum did not match; the object is gone."});
  base::Counter wrong_epoch = counter(
      "wrong_epoch",
      {"simm_server_wrong_epoch_pages_total",
       "Pages of slots that this shard does not own, or of a map that it does not know yet."});
  base::Counter recovering_pages =
      counter("recovering_pages",
              {"simm_server_recovering_pages_total",
               "Pages asked for before the shard had read back what an earlier daemon left."});
  base::Counter invalid_pages =
      counter("invalid_pages",
              {"simm_server_invalid_pages_total", "Pages with something that no engine sends."});
  base::Counter moved_in_objects =
      counter("moved_in_objects", {"simm_server_moved_in_objects_total",
                                   "Objects that came from the former owner of their slot."});
  base::Counter moved_in_bytes =
      counter("moved_in_bytes", {"simm_server_moved_in_bytes_total", "Bytes of those."});
  base::Counter moved_in_refused = counter(
      "moved_in_refused",
      {"simm_server_moved_in_refused_total",
       "Objects of a former owner that were not taken: their key was written or removed since, "
       "their slot takes none, or there was no room."});
  base::Counter arrivals_ended =
      counter("arrivals_ended",
              {"simm_server_arrivals_ended_total",
               "Slots that took no more objects of their former owner, for want of memory."});
  base::Counter arriving_slots = counter(
      "arriving_slots",
      {"simm_server_arriving_slots", "Slots that may still get objects of their former owner."});
  base::Counter read_through_asked =
      counter("read_through_asked",
              {"simm_server_read_through_asked_total",
               "Objects that a former owner was asked to send at once: a client waits for them."});
  base::Counter read_through_hits = counter(
      "read_through_hits",
      {"simm_server_read_through_pages_total",
       "Pages to get or to look for that waited until their object came from the former owner of "
       "its slot.",
       "result=hit"});
  base::Counter read_through_misses =
      counter("read_through_misses", {"simm_server_read_through_pages_total", "", "result=miss"});
  base::Counter read_through_late = counter(
      "read_through_late", {"simm_server_read_through_late_total",
                            "Objects that a former owner was asked for and did not send in time."});
  base::Counter failed_moves = counter(
      "failed_moves", {"simm_server_failed_moves_total", "Payloads that could not be moved."});
  base::Counter cancels =
      counter("cancels", {"simm_server_cancels_total", "Messages whose sender gave up."});
  base::Counter cancelled_pages =
      counter("cancelled_pages",
              {"simm_server_cancelled_pages_total", "Pages of those that were not done."});
  base::Counter aborts = counter(
      "aborts", {"simm_server_aborts_total", "Messages ended because their connection did."});
  base::Counter timeouts = counter("timeouts", {"simm_server_timed_out_pages_total",
                                                "Pages whose deadline passed at the shard."});
  base::Counter space_waits =
      counter("space_waits",
              {"simm_server_space_waits_total", "Attempts of puts that had to wait for eviction."});
  base::Counter no_space = counter("no_space", {"simm_server_no_space_pages_total",
                                                "Pages to put that waited for room in vain."});
};

}  // namespace simm::server
