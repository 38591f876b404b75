// RdmaTestKeys: MemoryKeys of a test. All memory of the serving end in one registration, and of the
// asking end the regions that the test adds, whole or in two registrations; on every rail. The test
// says what is not there yet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/registration/memory_keys.h"

namespace support {

class RdmaTestKeys final : public simm::transport::MemoryKeys {
public:
  // `asking`: the devices of the asking end, by rail.
  RdmaTestKeys(std::vector<simm::transport::RdmaDevice*> asking,
               simm::transport::RdmaDevice& serving)
      : asking_(std::move(asking)),
        all_(serving
                 .register_memory({reinterpret_cast<std::byte*>(4096), 1ull << 47, -1, 0},
                                  simm::transport::RemoteAccess::none)
                 .value()) {}

  // A page that lies on both sides of `seam` (> 0) has two targets.
  void add(const simm::memory::Region& region, std::uint64_t seam = 0) {
    for (std::size_t rail = 0; rail < asking_.size(); ++rail) {
      const std::uint64_t middle = seam == 0 ? region.length : seam;
      add(region, rail, 0, middle);
      if (middle < region.length) add(region, rail, middle, region.length);
    }
  }
  // Deregisters what was added.
  void remove_all() { pieces_.clear(); }

  std::size_t local(std::uint16_t, std::byte* at, std::uint64_t bytes,
                    std::span<simm::transport::LocalPart, simm::transport::Work::kPartsMax> parts)
      const noexcept override {
    if (!knows_local) return 0;
    // In two parts, as where registrations of the pool meet.
    const auto first = static_cast<std::uint32_t>(bytes / 2);
    const auto second = static_cast<std::uint32_t>(bytes) - first;
    parts[0] = {at, second, all_->local_key};
    parts[1] = {at + second, first, all_->local_key};
    return first == 0 ? 1 : 2;
  }
  std::size_t remote(
      std::uint16_t rail, const simm::memory::Slice& slice,
      std::span<simm::transport::wire::RemoteTarget, simm::transport::wire::kTargetsOfPageMax>
          targets) const noexcept override {
    if (!knows_remote || rail == unknown_rail || rail == failed_rail) {
      ++wishes.at(rail);
      return 0;
    }
    std::size_t count = 0;
    for (const Piece& piece : pieces_) {
      const std::uint64_t from = std::max(slice.offset, piece.from);
      const std::uint64_t to = std::min(slice.offset + slice.length, piece.to);
      if (piece.region != slice.region || piece.rail != rail || from >= to) continue;
      const std::uint64_t address = piece.registration->remote_address + (from - piece.from);
      targets[count++] = {address, to - from, piece.registration->remote_key, 0};
    }
    return count;
  }

  simm::transport::KeysFound look(std::uint16_t rail,
                                  const simm::memory::Slice&) const noexcept override {
    if (rail == failed_rail) return simm::transport::KeysFound::failed;
    const bool knows = knows_remote && rail != unknown_rail;
    return knows ? simm::transport::KeysFound::all : simm::transport::KeysFound::later;
  }

  bool knows_local = true;
  bool knows_remote = true;
  int unknown_rail = -1;  // of the asking end: knows nothing
  int failed_rail = -1;   // nor will it
  // Of the asking end: how often a rail was asked for what it does not know.
  mutable std::array<std::uint32_t, 2> wishes{};

private:
  struct Piece {
    const simm::memory::Region* region = nullptr;
    std::size_t rail = 0;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::unique_ptr<simm::transport::Registration> registration;
  };
  void add(const simm::memory::Region& region, std::size_t rail, std::uint64_t from,
           std::uint64_t to) {
    const simm::transport::MemoryRange range{region.base + from, to - from, -1, 0};
    pieces_.push_back(
        {&region, rail, from, to,
         asking_[rail]->register_memory(range, simm::transport::RemoteAccess::read_write).value()});
  }

  std::vector<simm::transport::RdmaDevice*> asking_;
  std::unique_ptr<simm::transport::Registration> all_;
  std::vector<Piece> pieces_;
};

}  // namespace support
