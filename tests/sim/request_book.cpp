#include "tests/sim/request_book.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simm/check.h"

namespace simm::sim {

using transport::wire::FrameHeader;
using transport::wire::RequestBody;

void RequestBook::give_up(std::uint64_t serial) {
  const auto found = open_.find(serial);
  if (found == open_.end() || found->second.is_sent) return;
  // A get may still be sent, though nobody waits for it; no harm is done by that.
  Entry& entry = found->second;
  const ipc::Opcode opcode = entry.wire->header.opcode;
  if (opcode != ipc::Opcode::put && opcode != ipc::Opcode::remove) return;
  entry.is_over = true;
  entry.left = hooks_.queue_pairs(*entry.wire);
  end_if_over(serial);
}

void RequestBook::answered(std::uint64_t serial) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  found->second.is_over = true;
  end_if_over(serial);
}

WireRequestPtr RequestBook::arrive(std::uint64_t serial, Carrier carrier) {
  const auto found = open_.find(serial);
  const bool is_awaited =
      found != open_.end() &&
      (carrier == Carrier::queue_pairs || (found->second.is_sent && !found->second.wire->arrived));
  if (!is_awaited) {
    report_.violation("seam", "a server begins with request %llu, which can not have come",
                      static_cast<unsigned long long>(serial));
    return nullptr;
  }
  Entry& entry = found->second;
  const WireRequestPtr wire = entry.wire;
  ++entry.active;
  if (std::exchange(wire->arrived, true)) hooks_.asked_again(*wire);
  if (carrier == Carrier::sockets) return wire;
  auto arrived = std::make_shared<WireRequest>(*wire);
  arrived->posted = wire;
  return arrived;
}

void RequestBook::leave(std::uint64_t serial, Carrier carrier) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  --found->second.active;
  if (carrier == Carrier::sockets) return end(serial);
  end_if_over(serial);
}

void RequestBook::on_queue_pair_end(std::uint64_t link) {
  std::vector<std::uint64_t> fewer;
  for (auto& [serial, entry] : open_) {
    if (entry.left.erase(link) > 0) fewer.push_back(serial);
  }
  for (const std::uint64_t serial : fewer) end_if_over(serial);
}

void RequestBook::end_if_over(std::uint64_t serial) {
  const Entry& entry = open_.at(serial);
  if (entry.is_over && entry.active == 0 && entry.left.empty()) end(serial);
}

void RequestBook::end(std::uint64_t serial) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  const WireRequestPtr wire = found->second.wire;
  open_.erase(found);
  hooks_.done(*wire);
}

// ---- the bytes ----

void RequestBook::on_sent(std::uint64_t connection, std::span<const std::byte> bytes) {
  Stream& stream = streams_[connection];
  while (!bytes.empty()) read(stream, bytes);
}

void RequestBook::read(Stream& stream, std::span<const std::byte>& bytes) {
  // A header, and of a request also the fixed part behind it.
  std::size_t wanted = sizeof(FrameHeader);
  FrameHeader header{};
  const auto look = [&] {
    if (stream.frame.size() < sizeof header) return;
    std::memcpy(&header, stream.frame.data(), sizeof header);
    const bool is_request =
        header.kind == static_cast<std::uint8_t>(transport::wire::FrameKind::request);
    if (is_request) wanted = sizeof header + sizeof(RequestBody);
  };
  if (stream.skip_bytes == 0) {
    look();
    const std::size_t taken = std::min(bytes.size(), wanted - stream.frame.size());
    stream.frame.insert(stream.frame.end(), bytes.begin(),
                        bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    look();
    if (stream.frame.size() < wanted) return;
    SIMM_CHECK(header.magic == transport::wire::kMagic);
    if (wanted > sizeof header) {
      RequestBody body{};
      std::memcpy(&body, stream.frame.data() + sizeof header, sizeof body);
      stream.serial = body.trace_id;
    }
    stream.skip_bytes = sizeof header + header.body_bytes - wanted;
  }
  const std::size_t skipped = std::min<std::size_t>(bytes.size(), stream.skip_bytes);
  bytes = bytes.subspan(skipped);
  stream.skip_bytes -= skipped;
  if (stream.skip_bytes == 0) end_frame(stream);
}

void RequestBook::end_frame(Stream& stream) {
  const std::uint64_t serial = std::exchange(stream.serial, 0);
  stream.frame.clear();
  if (serial == 0) return;
  const auto found = open_.find(serial);
  if (found == open_.end() || found->second.is_sent) {
    return report_.violation("seam", "request %llu is sent twice, or after it was given up",
                             static_cast<unsigned long long>(serial));
  }
  found->second.is_sent = true;
  hooks_.sent(*found->second.wire);
  if (stream.is_over) return end(serial);
  stream.requests.push_back(serial);
}

void RequestBook::on_server_end(std::uint64_t connection) {
  Stream& stream = streams_[connection];
  stream.is_over = true;
  for (const std::uint64_t serial : std::exchange(stream.requests, {})) {
    const auto found = open_.find(serial);
    if (found != open_.end() && !found->second.wire->arrived) end(serial);
  }
}

}  // namespace simm::sim
