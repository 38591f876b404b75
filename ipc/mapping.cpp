#include "ipc/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <limits>
#include <utility>

namespace simm::ipc {
namespace {

namespace bip = boost::interprocess;

// What mapped_region asks of a thing that can be mapped: Boost has handles for named shared memory
// and for named files, and none for a bare descriptor.
class DescriptorHandle {
public:
  explicit DescriptorHandle(int fd) noexcept : fd_(fd) {}
  bip::mapping_handle_t get_mapping_handle() const noexcept { return {fd_, false}; }

private:
  int fd_;
};

}  // namespace

Mapping::Mapping() noexcept = default;
Mapping::~Mapping() = default;
Mapping::Mapping(Mapping&& other) noexcept
    : region_(std::move(other.region_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  region_ = std::move(other.region_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

std::uint64_t Mapping::unmap_tail(std::uint64_t bytes_max) noexcept {
  if (region_ == nullptr) return 0;
  const std::uint64_t bytes = std::min(bytes_, bytes_max);
  if (bytes < bytes_ && region_->shrink_by(static_cast<std::size_t>(bytes))) {
    bytes_ -= bytes;
    return bytes;
  }
  region_.reset();
  data_ = nullptr;
  return std::exchange(bytes_, 0);
}

void Mapping::forget() noexcept {
  (void)region_.release();
  data_ = nullptr;
  bytes_ = 0;
}

Expected<Mapping> Mapping::map(int fd, std::uint64_t offset, std::uint64_t bytes,
                               const MappingOptions& options) {
  // mapped_region takes a size of 0 as "the rest of the file", which is not what 0 bytes mean here.
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<bip::offset_t>::max());
  if (bytes == 0 || bytes > kMost || offset > kMost - bytes) {
    return Error{Status::invalid_argument, "mapping of " + std::to_string(bytes) +
                                               " bytes at offset " + std::to_string(offset)};
  }
  Mapping result;
  try {
    result.region_ = std::make_unique<bip::mapped_region>(
        DescriptorHandle(fd), options.writable ? bip::read_write : bip::read_only,
        static_cast<bip::offset_t>(offset), static_cast<std::size_t>(bytes));
  } catch (const bip::interprocess_exception& failure) {
    return Error{Status::io_error,
                 "mmap of " + std::to_string(bytes) + " bytes: " + failure.what()};
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for the record of a mapping"};
  }
  void* const address = result.region_->get_address();
  if (options.dont_fork && ::madvise(address, bytes, MADV_DONTFORK) != 0) {
    return system_error("MADV_DONTFORK", errno);
  }
  if (options.dont_dump && ::madvise(address, bytes, MADV_DONTDUMP) != 0) {
    return system_error("MADV_DONTDUMP", errno);
  }
  result.data_ = static_cast<std::byte*>(address);
  result.bytes_ = bytes;
  return result;
}

}  // namespace simm::ipc
