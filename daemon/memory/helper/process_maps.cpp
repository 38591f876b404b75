#include "daemon/memory/helper/process_maps.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include "ipc/fd.h"

namespace simm::memory {

namespace {

// Takes a number off the front of the text; it must be followed by `after`.
template <typename Number>
bool take(std::string_view& text, Number& value, int base, char after) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != after) return false;
  text.remove_prefix(used + 1);
  return true;
}

}  // namespace

// 7f2a419e7000-7f2a419e9000 rw-s 00000000 00:01 1159    /dev/zero (deleted)
bool parse_maps_line(std::string_view line, MapsLine& result) noexcept {
  std::string_view text = line;
  if (!take(text, result.begin, 16, '-') || !take(text, result.end, 16, ' ')) return false;
  if (text.size() < 5 || text[4] != ' ' || result.begin >= result.end) return false;
  result.is_shared_writable = text.substr(0, 4) == "rw-s";
  text.remove_prefix(5);
  unsigned major_number = 0;
  unsigned minor_number = 0;
  if (!take(text, result.file_offset, 16, ' ') || !take(text, major_number, 16, ':') ||
      !take(text, minor_number, 16, ' ')) {
    return false;
  }
  result.device = makedev(major_number, minor_number);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.inode);
  return error == std::errc() && (end == text.data() + text.size() || *end == ' ');
}

bool SharedRangeFinder::add(const MapsLine& line) noexcept {
  if (line.end <= next_) return true;
  if (line.begin > next_) {
    refusal_ = "the range is not mapped as a whole";
  } else if (!line.is_shared_writable) {
    refusal_ = "not all of the range is mapped shared and writable (rw-s)";
  } else if (line.inode == 0) {
    refusal_ = "the range has no file behind it";
  } else if (next_ == address_) {
    range_.first = line;
    range_.file_offset = line.file_offset + (address_ - line.begin);
  } else if (line.device != range_.first.device || line.inode != range_.first.inode ||
             line.file_offset != range_.file_offset + (line.begin - address_)) {
    refusal_ = "the range shows several files, or one file with gaps";
  }
  if (refusal_ == nullptr) next_ = line.end;
  return refusal_ == nullptr && next_ < end_;
}

Expected<SharedRange> SharedRangeFinder::result() const {
  if (refusal_ != nullptr) return Error{Status::permission_denied, refusal_};
  if (next_ < end_) return Error{Status::permission_denied, "the range is not mapped as a whole"};
  return range_;
}

Expected<SharedRange> find_shared_range(pid_t pid, std::uint64_t address, std::uint64_t length) {
  const std::string path = "/proc/" + std::to_string(pid) + "/maps";
  ipc::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    Error error = system_error("open " + path, errno);
    error.status = Status::permission_denied;
    return error;
  }
  SharedRangeFinder finder(address, length);
  std::array<char, 64 * 1024> buffer;
  std::size_t filled = 0;
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data() + filled, buffer.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read " + path, errno);
    if (count == 0) return finder.result();
    filled += static_cast<std::size_t>(count);
    std::string_view text(buffer.data(), filled);
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      MapsLine line;
      if (!parse_maps_line(text.substr(0, end), line)) {
        return Error{Status::unsupported, path + " has a form that is not known"};
      }
      if (!finder.add(line)) return finder.result();
    }
    // Paths end at 4 KiB (escaped: four times as long), so a whole buffer always holds a line.
    if (text.size() == buffer.size()) return Error{Status::unsupported, path + ": endless line"};
    std::memmove(buffer.data(), text.data(), text.size());
    filled = text.size();
  }
}

}  // namespace simm::memory
