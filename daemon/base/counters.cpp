#include "daemon/base/counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "simm/check.h"

namespace simm::base {
namespace {

constexpr std::size_t kLabelsOffset = 4096;
constexpr std::size_t kValuesOffset = kLabelsOffset + kCountersMax * sizeof(CounterLabel);
constexpr std::size_t kCountersBytes = kValuesOffset + kCountersMax * sizeof(std::uint64_t);
constexpr std::uint32_t kValuesPerLinePair = 128 / sizeof(std::uint64_t);

// Maps `descriptor` (or private memory for -1); null on failure, with errno.
unsigned char* map_counters(int descriptor) {
  const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* bytes = ::mmap(nullptr, kCountersBytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  return bytes == MAP_FAILED ? nullptr : static_cast<unsigned char*>(bytes);
}

}  // namespace

CounterSet::CounterSet() : mapping_{map_counters(-1), kCountersBytes} {
  if (mapping_.bytes == nullptr) throw std::bad_alloc();
  preface();
}

CounterSet::CounterSet(Mapping mapping) : mapping_(mapping) {
  preface();
}

CounterSet::~CounterSet() {
  ::munmap(mapping_.bytes, mapping_.length);
}

Expected<std::unique_ptr<CounterSet>> CounterSet::create_file(const std::string& path) {
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const int fd = ::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return system_error("counters_file: can not create " + fresh, errno);
  // posix_fallocate, not ftruncate: a full file system must fail here, not as a fault later.
  int failed = ::posix_fallocate(fd, 0, static_cast<off_t>(kCountersBytes));
  unsigned char* bytes = failed == 0 ? map_counters(fd) : nullptr;
  if (failed == 0 && bytes == nullptr) failed = errno;
  ::close(fd);
  if (failed != 0) {
    ::unlink(fresh.c_str());
    return system_error("counters_file: can not size or map " + fresh, failed);
  }
  std::unique_ptr<CounterSet> set(new CounterSet(Mapping{bytes, kCountersBytes}));
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    const int renamed = errno;
    ::unlink(fresh.c_str());
    return system_error("counters_file: can not rename to " + path, renamed);
  }
  return set;
}

void CounterSet::preface() {
  CountersHeader& head = header();
  head.magic = kCountersMagic;
  head.labels_offset = kLabelsOffset;
  head.values_offset = kValuesOffset;
  head.file_bytes = kCountersBytes;
  head.pid = static_cast<std::uint64_t>(::getpid());
  head.capacity = kCountersMax;
  head.label_bytes = sizeof(CounterLabel);
  std::atomic_ref<std::uint32_t>(head.layout_version)
      .store(kCountersVersion, std::memory_order_release);
  (void)counter("counters.refused", {"simm_counters_refused_total",
                                     "Counters that found no place in the table of counters."});
}

Counter CounterSet::counter(std::string_view name, const Metric& metric, std::string_view labels) {
  if (const auto found = index_.find(name); found != index_.end()) {
    return Counter(&cell(found->second));
  }
  if (count_ == kCountersMax || name.empty() || name.size() > kCounterNameBytesMax) {
    Counter(&cell(index_.at("counters.refused"))).add_shared();
    return Counter();
  }
  const std::uint32_t added = count_++;
  CounterLabel& text = label(added);
  std::memcpy(text.name, name.data(), name.size());
  text.name_bytes = static_cast<std::uint32_t>(name.size());
  std::atomic_ref<std::uint32_t>(header().count).store(count_, std::memory_order_release);
  index_.emplace(name, added);
  const bool has_both = !labels.empty() && !metric.labels.empty();
  std::string all(labels);
  all.append(has_both ? "," : "").append(metric.labels);
  meanings_.resize(count_);
  meanings_.back() = {metric, std::move(all)};
  return Counter(&cell(added));
}

CounterSet& CounterSet::begin_writer() noexcept {
  const std::uint32_t aligned =
      (count_ + kValuesPerLinePair - 1) / kValuesPerLinePair * kValuesPerLinePair;
  count_ = std::min(aligned, kCountersMax);
  return *this;
}

std::uint64_t CounterSet::value(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? 0 : Counter(&cell(found->second)).value();
}

std::vector<std::pair<std::string, std::uint64_t>> CounterSet::snapshot() const {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  all.reserve(index_.size());
  for (const auto& [name, index] : index_) all.emplace_back(name, Counter(&cell(index)).value());
  return all;
}

CountersHeader& CounterSet::header() const noexcept {
  // SAFETY: the mapping is page-aligned and kCountersBytes long; the header is its first bytes.
  return *reinterpret_cast<CountersHeader*>(mapping_.bytes);
}

CounterLabel& CounterSet::label(std::uint32_t index) const noexcept {
  SIMM_CHECK(index < kCountersMax);
  // SAFETY: index < kCountersMax, and the labels take kCountersMax entries from kLabelsOffset.
  return reinterpret_cast<CounterLabel*>(mapping_.bytes + kLabelsOffset)[index];
}

std::uint64_t& CounterSet::cell(std::uint32_t index) const noexcept {
  SIMM_CHECK(index < kCountersMax);
  // SAFETY: index < kCountersMax, and the values take kCountersMax words from kValuesOffset.
  return reinterpret_cast<std::uint64_t*>(mapping_.bytes + kValuesOffset)[index];
}

Expected<CountersReader> CountersReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error("can not open counters file " + path, errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(sizeof(CountersHeader))) {
    ::close(fd);
    return Error{Status::incompatible, path + " is too short to be a counters file"};
  }
  const auto length = static_cast<std::size_t>(info.st_size);
  void* mapped = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  const int failed = errno;
  ::close(fd);
  if (mapped == MAP_FAILED) return system_error("can not map counters file " + path, failed);

  CountersReader reader;
  reader.bytes_ = static_cast<const unsigned char*>(mapped);
  reader.length_ = length;
  CountersHeader head;
  std::memcpy(&head, mapped, sizeof head);
  const bool known = head.magic == kCountersMagic && head.layout_version == kCountersVersion &&
                     head.label_bytes == sizeof(CounterLabel);
  const std::uint64_t capacity = head.capacity;
  // Every range is checked against the real length, by subtraction.
  const bool fits = known && head.labels_offset <= length && head.values_offset <= length &&
                    head.values_offset % sizeof(std::uint64_t) == 0 &&
                    capacity <= (length - head.labels_offset) / sizeof(CounterLabel) &&
                    capacity <= (length - head.values_offset) / sizeof(std::uint64_t);
  if (!fits) {
    return Error{Status::incompatible,
                 path + " is not a counters file of version " + std::to_string(kCountersVersion)};
  }
  reader.labels_offset_ = head.labels_offset;
  reader.values_offset_ = head.values_offset;
  reader.capacity_ = head.capacity;
  reader.pid_ = head.pid;
  return reader;
}

CountersReader::CountersReader(CountersReader&& other) noexcept {
  *this = std::move(other);
}

CountersReader& CountersReader::operator=(CountersReader&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(length_, other.length_);
  labels_offset_ = other.labels_offset_;
  values_offset_ = other.values_offset_;
  capacity_ = other.capacity_;
  pid_ = other.pid_;
  return *this;
}

CountersReader::~CountersReader() {
  if (bytes_ != nullptr) ::munmap(const_cast<unsigned char*>(bytes_), length_);
}

std::vector<std::pair<std::string, std::uint64_t>> CountersReader::snapshot() const {
  // SAFETY: open() checked that the header, `capacity_` labels and `capacity_` values fit in
  // length_; `count` is loaded once and clamped to capacity_.
  auto* words = const_cast<unsigned char*>(bytes_);
  auto& head = *reinterpret_cast<CountersHeader*>(words);
  const std::uint32_t count = std::min(
      std::atomic_ref<std::uint32_t>(head.count).load(std::memory_order_acquire), capacity_);
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    CounterLabel label;
    std::memcpy(&label, words + labels_offset_ + i * sizeof(CounterLabel), sizeof label);
    if (label.name_bytes == 0 || label.name_bytes > kCounterNameBytesMax) continue;
    auto* cell = reinterpret_cast<std::uint64_t*>(words + values_offset_) + i;
    all.emplace_back(std::string(label.name, label.name_bytes), Counter(cell).value());
  }
  return all;
}

}  // namespace simm::base
