#include "daemon/attach/session_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "ipc/lane_memory.h"
#include "ipc/session_words.h"

namespace simm::control {
namespace {

void write_header(const ipc::Mapping& mapping, std::uint32_t lanes, std::uint32_t layout) {
  // SAFETY: the mapping is page-aligned and session_bytes(lanes) long.
  ipc::SessionHeader& header = *reinterpret_cast<ipc::SessionHeader*>(mapping.data());
  header = {};
  for (std::uint32_t i = 0; i < lanes; ++i) {
    *ipc::LaneMemory(ipc::lane_base(mapping.data(), i)).control() = {};
  }
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
}

bool may_lock() noexcept {
  rlimit bound{};
  return ::getrlimit(RLIMIT_MEMLOCK, &bound) == 0 && bound.rlim_cur == RLIM_INFINITY;
}

bool has_swap() noexcept {
  struct sysinfo facts {};
  return ::sysinfo(&facts) != 0 || facts.totalswap != 0;
}

// Into the page table, and there they stay. The pages exist.
Outcome hold_pages(const ipc::Mapping& mapping) {
  if (may_lock()) {
    if (::mlock(mapping.data(), mapping.bytes()) == 0) return Done{};
    return system_error("mlock of session memory", errno);
  }
  constexpr std::uint64_t kPageBytes = 4096;
  for (std::uint64_t at = 0; at < mapping.bytes(); at += kPageBytes) {
    // SAFETY: inside the mapping.
    (void)*static_cast<volatile std::byte*>(mapping.data() + at);
  }
  return Done{};
}

Error no_memory_of_session(const std::string& why) {
  return {Status::invalid_argument,
          "session memory of the client: " + why +
              ": pass a memfd of the size that Welcome names, with all its pages written and no "
              "seal but those against growing and shrinking"};
}

}  // namespace

Expected<SessionPages> SessionPages::create(std::uint64_t session_id, std::uint32_t lanes,
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
  write_header(*mapping, lanes, layout);
  return SessionPages{std::make_shared<ipc::MemoryFile>(std::move(*file)), std::move(*mapping)};
}

Expected<SessionPages> SessionPages::take(ipc::UniqueFd fd, std::uint32_t lanes,
                                          std::uint32_t layout) {
  const std::uint64_t bytes = ipc::session_bytes(lanes);
  auto file = ipc::MemoryFile::inspect(std::move(fd));
  if (!file) return no_memory_of_session(file.error().context);
  if (file->huge_pages()) return no_memory_of_session("the file has huge pages");
  if (file->bytes() != bytes) {
    return no_memory_of_session("the file has " + std::to_string(file->bytes()) + " bytes, not " +
                                std::to_string(bytes));
  }
  // Nothing is touched before the seals: until then the client can take pages away.
  ipc::MappingOptions options;
  options.dont_dump = true;
  auto mapping = ipc::Mapping::map(file->fd(), 0, bytes, options);
  if (!mapping) return no_memory_of_session(mapping.error().context);
  if (const Outcome sealed = file->seal_whole(); !sealed) {
    return no_memory_of_session(sealed.error().context);
  }
  // The client had time to change the size. A file without holes ends in one behind its last byte.
  const auto hole = file->first_hole();
  if (!hole) return std::move(hole).error();
  if (*hole != bytes) {
    return no_memory_of_session("the page at byte " + std::to_string(*hole) + " is missing");
  }
  if (const Outcome held = hold_pages(*mapping); !held) return held.error();
  write_header(*mapping, lanes, layout);
  return SessionPages{nullptr, std::move(*mapping)};
}

bool SessionPages::stay() noexcept {
  return may_lock() || !has_swap();
}

Expected<SessionMemory> SessionMemory::create(std::uint64_t session_id, std::uint32_t lanes,
                                              std::uint32_t layout) {
  auto pages = SessionPages::create(session_id, lanes, layout);
  if (!pages) return std::move(pages).error();
  auto memory = without_pages(lanes, layout);
  if (!memory) return memory;
  memory->pages = std::move(*pages);
  memory->is_of_client = false;
  return memory;
}

Expected<SessionMemory> SessionMemory::without_pages(std::uint32_t lanes, std::uint32_t layout) {
  auto bells = ipc::BellSocket::make_pair();
  if (!bells) return std::move(bells).error();
  return SessionMemory{{}, std::move(bells->first), std::move(bells->second), lanes, layout, true};
}

}  // namespace simm::control
