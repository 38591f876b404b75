// What an engine counts: outcomes by cause, and how long the stages of a batch take.
// Thread: written by the data agent of the engine.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/counter_group.h"
#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::engine {

// What became of a page, by the answer that ended it, before public_status() makes fewer of them:
// a get or exists that ends with anything from not_found to wrong_epoch is a miss, and this is why.
enum class PageOutcome : std::uint8_t {
  ok,
  exists,  // an if_absent put met the object
  not_found,
  size_mismatch,
  corrupt,
  unreachable,
  wrong_epoch,
  timeout,
  no_space,
  failed,  // everything else
};
inline constexpr std::size_t kPageOutcomeCount = 10;

PageOutcome page_outcome(Status answer) noexcept;

// Of a stage of a batch, in an engine or in its session.
constexpr base::Metric stage_metric(std::string_view label) noexcept {
  return {"simm_stage_duration_seconds",
          "Stages of a batch; those other than queue are timed for one batch in 64.", label};
}

struct EngineCounters : base::CounterGroup {
  EngineCounters() = default;  // counts into unread cells
  // `prefix`: "engine.0" of the data agent 0.
  EngineCounters(base::CounterSet& set, std::string_view prefix)
      : CounterGroup(set, prefix, "agent") {}

  // Of one opcode, what clients asked for: "<prefix>.op.<opcode>.batches", ".bytes" (moved) and
  // ".pages.<outcome>". Without the fetches for others, which would count a page twice.
  struct OfOpcode : base::CounterGroup {
    OfOpcode() = default;  // a noop has neither pages nor bytes, and never comes here
    OfOpcode(const CounterGroup& engine, ipc::Opcode opcode);

    base::Counter batches =
        counter("batches", {"simm_batches_total", "Batches of clients that were completed."});
    base::Counter bytes = counter("bytes", {"simm_moved_bytes_total",
                                            "Bytes of objects that clients put and got; of a put "
                                            "that found its object there as well."});
    std::array<base::Counter, kPageOutcomeCount> pages;
  };
  std::array<OfOpcode, ipc::kOpcodeCount> of_opcode = opcodes();

  base::Counter batches =
      counter("batches", {"simm_engine_batches_total",
                          "Batches that the engine took, with its fetches for several readers and "
                          "its writes of second copies."});
  base::Counter pages = counter("pages", {"simm_engine_pages_total", "Pages of those batches."});
  base::Counter bytes_moved =
      counter("bytes_moved", {"simm_engine_moved_bytes_total", "Bytes that those batches moved."});
  base::Counter pool_exhausted =
      counter("pool_exhausted",
              {"simm_engine_pool_exhausted_total",
               "Times that all operations of the engine (engine.operations_max) were in use."});
  base::Counter no_credit = counter(
      "no_credit",
      {"simm_engine_no_credit_total", "Messages that had to wait for credit of a connection."});
  base::Counter unreachable =
      counter("unreachable",
              {"simm_engine_unreachable_total",
               "Messages that could not be posted because there is no connection to the owner."});
  base::Counter requests =
      counter("requests", {"simm_engine_requests_total", "Messages posted to owners of keys."});
  base::Counter extended =
      counter("extended", {"simm_engine_extended_total",
                           "Times that a batch got more time because its bytes move, if slowly."});
  base::Counter cancels =
      counter("cancels", {"simm_engine_cancels_total",
                          "Messages that were asked to end because their deadline was near."});
  base::Counter resets = counter(
      "resets",
      {"simm_engine_resets_total",
       "Connections reset because a cancel was not answered within half of the fence grace."});
  base::Counter retries = counter(
      "retries", {"simm_engine_retries_total",
                  "Reads posted again because their connection was reset for another request."});
  base::Counter reroutes = counter(
      "reroutes", {"simm_engine_reroutes_total", "Pages asked again because the map had changed."});
  base::Counter declined = counter(
      "declined",
      {"simm_engine_declined_pages_total",
       "Shared reads for which the node cache had no room, so that their owners were asked."});
  base::Counter asked_other = counter(
      "asked_other", {"simm_engine_asked_other_pages_total",
                      "Reads of objects that are kept twice, for which the owner of the other copy "
                      "was asked, too."});
  base::Counter single_writes = counter(
      "single_writes", {"simm_engine_single_writes_total",
                        "Pages written in namespaces that are kept twice, of which only one copy "
                        "was: the other owner was away or had no room, or there is none."});
  base::Counter timeouts = counter("timeouts", {"simm_engine_timeouts_total",
                                                "Batches with a page that got no answer in time."});
  base::Counter late_replies = counter(
      "late_replies", {"simm_engine_late_replies_total", "Answers to requests that were over."});
  base::Counter bad_replies = counter(
      "bad_replies", {"simm_engine_bad_replies_total", "Answers that do not fit their request."});
  base::Counter corrupt =
      counter("corrupt", {"simm_engine_corrupt_pages_total",
                          "Answers about pages whose checksum did not match; they are misses."});
  base::Counter size_mismatches =
      counter("size_mismatches",
              {"simm_engine_size_mismatches_total",
               "Answers about objects of another length than the one asked for; they are misses."});
  base::Counter fences_overdue =
      counter("fences_overdue", {"simm_engine_fences_overdue_total",
                                 "Batches that could not be completed within the grace after their "
                                 "deadline, because somebody might still write to their memory."});

  base::Histogram complete_ns = histogram(
      "complete_ns",
      {"simm_batch_duration_seconds",
       "From the engine's taking a batch to the client's having its results; all batches."});

  // The stages of one batch of EngineConfig::stages_one_in, each by readings of its own.
  base::Histogram post_stage_ns = histogram("stage.post_ns", stage_metric("stage=post"));
  base::Histogram wire_stage_ns = histogram("stage.wire_ns", stage_metric("stage=wire"));
  base::Histogram complete_stage_ns =
      histogram("stage.complete_ns", stage_metric("stage=complete"));

private:
  [[nodiscard]] std::array<OfOpcode, ipc::kOpcodeCount> opcodes() const;
};

}  // namespace simm::engine
