// A scene with copies of an immutable namespace, which a node keeps while their owners confirm
// them.
#include <algorithm>

#include "tests/sim/cluster.h"

namespace simm::sim {

// Again and again, sooner than a copy becomes too old.
bool Cluster::read_copies(SimClient& reader, const SharedSweep& sweep, base::TimeNs for_ns) {
  const base::TimeNs pause_ns = scenario_.shared_reads.config.linger_ns / 5;
  const base::TimeNs end_ns = loop_.now_ns() + for_ns;
  while (loop_.now_ns() < end_ns) {
    reader.read_shared(sweep);
    if (!step_until([&] { return reader.idle(); }, 3 * kSecond)) return false;
    if (!step(pause_ns)) return false;
  }
  return report_.clean();
}

// What has no lease goes, where there is little room.
bool Cluster::press_on_stores() {
  const SweptPut put{scenario_.frame_bytes, std::min(scenario_.frames, scenario_.keys)};
  for (const auto& client : clients_) {
    if (!sweep(*client, ipc::Opcode::put, 0, put)) return false;
  }
  return true;
}

// A remove reaches the copies in time, also on a node that hears no owner.
bool Cluster::remove_from_others(SimClient& reader, SimClient& writer, const SharedSweep& sweep,
                                 bool is_cut) {
  const auto cut = [&](bool is_on) {
    for (const auto& server : servers_) network_.cut(0, server->serial(), is_on, is_on);
  };
  cut(is_cut);
  writer.sweep(ipc::Opcode::remove, kImmutableNameSpace);
  if (!step_until([&] { return writer.idle(); }, 3 * kSecond)) return false;
  const base::TimeNs linger_ns = scenario_.shared_reads.config.linger_ns;
  if (!read_copies(reader, sweep, 2 * linger_ns)) return false;
  cut(false);
  return step(100 * kMs);
}

// A client reads copies for much longer than these may be kept without their owners, and has the
// leases for that all the time. Then a client of another node, if there is one, removes them.
bool Cluster::live_with_confirmed_copies() {
  Dice dice(scenario_.seed, 22);
  SimClient& reader = *clients_[0];
  SimClient* writer = &reader;
  for (std::uint32_t client = 0; client < scenario_.clients; ++client) {
    const bool is_elsewhere = client % scenario_.nodes != 0;
    if (is_elsewhere && clients_[client]->tenant() == reader.tenant()) {
      writer = clients_[client].get();
    }
  }
  const base::TimeNs linger_ns = scenario_.shared_reads.config.linger_ns;
  SharedSweep sweep_of_copies;
  sweep_of_copies.pages = std::min({scenario_.frames, scenario_.keys, 4u});
  sweep_of_copies.timeout_ns = linger_ns / 4 + 5 * kMs;
  const SweptPut put{0, sweep_of_copies.pages};
  if (!sweep(*writer, ipc::Opcode::put, kImmutableNameSpace, put)) return false;
  // The first one asks for a short lease, and the next ones do not get that one.
  if (!read_copies(reader, sweep_of_copies, 1)) return false;
  sweep_of_copies.lease_ms = static_cast<std::uint32_t>((2 * linger_ns + 200 * kMs) / kMs);
  if (!read_copies(reader, sweep_of_copies, sweep_of_copies.lease_ms * kMs)) return false;
  if (!press_on_stores()) return false;
  if (!sweep(reader, ipc::Opcode::get, kImmutableNameSpace, put)) return false;
  // Who does not say that keys have one value is served no confirmed copy.
  if (!read_copies(reader, sweep_of_copies, 2 * linger_ns)) return false;
  SharedSweep unaware = sweep_of_copies;
  unaware.says_immutable = false;
  if (!read_copies(reader, unaware, 1)) return false;
  if (!read_copies(reader, sweep_of_copies, 2 * linger_ns)) return false;
  if (!remove_from_others(reader, *writer, sweep_of_copies,
                          writer != &reader && dice.percent(60))) {
    return false;
  }
  // Nobody uses the copies any more, and nobody is asked about them.
  return step(scenario_.shared_reads.config.confirm_for_ns + linger_ns);
}

}  // namespace simm::sim
