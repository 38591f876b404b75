#include "daemon/attach/session_memory.h"

#include <atomic>
#include <string>
#include <utility>

#include "ipc/session_words.h"

namespace simm::control {

Expected<SessionMemory> SessionMemory::create(std::uint64_t session_id, std::uint32_t lanes,
                                              std::uint32_t layout) {
  ipc::MemoryFileSpec spec;
  spec.name = "simm-session-" + std::to_string(session_id);
  spec.bytes = ipc::session_bytes(lanes);
  spec.prefault = true;
  auto file = ipc::MemoryFile::create(spec);
  if (!file) return std::move(file).error();
  ipc::MappingOptions options;
  options.dont_dump = true;
  auto mapping = ipc::Mapping::map(file->fd(), 0, file->bytes(), options);
  if (!mapping) return std::move(mapping).error();
  auto bells = ipc::BellSocket::make_pair();
  if (!bells) return std::move(bells).error();

  SessionMemory memory{std::make_shared<ipc::MemoryFile>(std::move(*file)), std::move(*mapping),
                       std::move(bells->first), std::move(bells->second), lanes};
  ipc::SessionHeader& header = *memory.header();
  header.magic = ipc::kSessionMagic;
  header.session_bytes = ipc::session_bytes(lanes);
  header.feature_bits = ipc::kFeatureBits;
  header.lane_count = lanes;
  header.lane_bytes = ipc::kLaneBytes;
  header.submission_slots = ipc::kSubmissionSlots;
  header.completion_slots = ipc::kCompletionSlots;
  header.page_slots = ipc::kPageSlots;
  header.key_arena_bytes = ipc::kKeyArenaBytes;
  header.progress.word = ipc::kProgressBegin;
  std::atomic_ref<std::uint32_t>(header.layout_version).store(layout, std::memory_order_release);
  return memory;
}

ipc::SessionHeader* SessionMemory::header() const noexcept {
  // SAFETY: the mapping is page-aligned and at least session_bytes(1) long.
  return reinterpret_cast<ipc::SessionHeader*>(mapping.data());
}

}  // namespace simm::control
