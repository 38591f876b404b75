#include "daemon/tools/simm-bench/perftest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <thread>

#include "daemon/tools/simm-bench/loopback_cluster.h"
#include "daemon/tools/simm-bench/pinning.h"
#include "daemon/tools/simm-bench/subprocess.h"
#include "simm/check.h"

namespace simm::bench {
namespace {

// A device that does not reach the other one may retry for ever.
constexpr std::chrono::seconds kRunTimeout{120};
constexpr int kTries = 3;

// The table of each kind of program, blanks pressed together. Later versions call the unit by its
// right name: it always was 2^20 bytes.
constexpr std::string_view kBandwidthHeads[] = {
    "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]",
    "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]"};
constexpr std::string_view kLatencyHeads[] = {
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% "
    "percentile[usec] 99.9% percentile[usec]"};
constexpr std::size_t kBandwidthColumns = 5;
constexpr std::size_t kLatencyColumns = 9;
constexpr std::size_t kAverageColumn = 3;
constexpr std::size_t kTypicalColumn = 4;
constexpr double kPerftestMegabyte = 1 << 20;

bool is_bandwidth(const PerftestRun& run) {
  return run.program.size() > 3 && run.program.substr(run.program.size() - 3) == "_bw";
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string pressed(const std::string& line) {
  std::string text;
  for (const std::string& word : words_of(line)) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool is_head(const PerftestRun& run, const std::string& line) {
  const std::string text = pressed(line);
  if (is_bandwidth(run)) return std::ranges::count(kBandwidthHeads, text) > 0;
  return std::ranges::count(kLatencyHeads, text) > 0;
}

Error not_understood(const PerftestRun& run, const std::string& what, std::string_view text) {
  return Error{Status::io_error,
               run.program + ": " + what + ", in '" + std::string(text.substr(0, 2'000)) + "'"};
}

// All of a word as a number.
template <typename Number>
bool parse_number(const std::string& word, Number& number) {
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && stopped == end;
}

// Whether somebody listens on that port of 127.0.0.1, or of all addresses. To connect and see would
// be to be taken for the other end; and of two who share an address none may listen.
bool is_listened_on(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool is_taken = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                        bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
  const int error = errno;
  close(fd);
  return is_taken && error == EADDRINUSE;
}

struct Ends {
  CapturedProcess server;
  std::string port;
};

// One end of a run: with a host the one that asks, without the one that it asks. They run where the
// node and its storage daemon do.
Expected<CapturedProcess> start_end(const PerftestRun& run, const std::string& device,
                                    const std::string& port, const std::string& host) {
  std::vector<std::string> arguments = {run.program,
                                        "--ib-dev=" + device,
                                        "--port=" + port,
                                        "--size=" + std::to_string(run.bytes),
                                        "--iters=" + std::to_string(run.iterations),
                                        "--CPU-freq"};  // no warning of clocks that vary
  if (!host.empty()) arguments.push_back(host);
  SpawnOptions options;
  options.cpu = host.empty() ? worker_cpu(0) : daemon_cpu();
  options.remedy = "install perftest (Debian and Ubuntu: apt-get install perftest)";
  return CapturedProcess::start(arguments, options, /*with_errors=*/true);
}

Error failed_end(const PerftestRun& run, const std::string& device,
                 const Expected<CapturedProcess::Result>& result) {
  if (!result) {
    return Error{result.status(), result.error().context + ": does " + device +
                                      " reach the device at the other end?"};
  }
  return Error{Status::io_error, run.program + " on " + device + ": wait status " +
                                     std::to_string(result->wait_status) + ", printed '" +
                                     result->text.substr(0, 2'000) + "'"};
}

Expected<Ends> start_server(const PerftestRun& run, const std::string& device) {
  const Expected<std::string> address = free_address();
  if (!address) return address.error();
  const std::string port = address->substr(address->rfind(':') + 1);
  std::uint16_t number = 0;
  SIMM_CHECK(parse_number(port, number));
  Expected<CapturedProcess> server = start_end(run, device, port, "");
  if (!server) return server.error();
  const auto end = std::chrono::steady_clock::now() + kRunTimeout;
  while (!is_listened_on(number)) {
    if (!server->is_running()) return failed_end(run, device, server->finish(kRunTimeout));
    if (std::chrono::steady_clock::now() >= end) {
      return Error{Status::timeout, run.program + " on " + device + " does not listen within " +
                                        std::to_string(kRunTimeout.count()) + " s"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Ends{std::move(*server), port};
}

std::string devices_here() {
  std::string names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", ignored)) {
    names += (names.empty() ? "" : ", ") + entry.path().filename().string();
  }
  return names;
}

bool is_device(const std::string& name) {
  std::error_code ignored;
  return !name.empty() && name.find('/') == std::string::npos &&
         std::filesystem::exists("/sys/class/infiniband/" + name, ignored);
}

Expected<double> try_perftest(const PerftestRun& run, const std::vector<DevicePair>& pairs) {
  const std::size_t count = is_bandwidth(run) ? pairs.size() : 1;
  std::vector<Ends> servers;
  for (std::size_t i = 0; i < count; ++i) {
    Expected<Ends> server = start_server(run, pairs[i].far);
    if (!server) return server.error();
    servers.push_back(std::move(*server));
  }
  std::vector<CapturedProcess> clients;
  for (std::size_t i = 0; i < count; ++i) {
    Expected<CapturedProcess> client = start_end(run, pairs[i].near, servers[i].port, "127.0.0.1");
    if (!client) return client.error();
    clients.push_back(std::move(*client));
  }
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Expected<CapturedProcess::Result> result = clients[i].finish(kRunTimeout);
    if (!result || !result->ok()) return failed_end(run, pairs[i].near, result);
    const Expected<double> value = parse_perftest(run, result->text);
    if (!value) return value.error();
    sum += *value;
    const Expected<CapturedProcess::Result> served = servers[i].server.finish(kRunTimeout);
    if (!served || !served->ok()) return failed_end(run, pairs[i].far, served);
  }
  return sum;
}

// Then its figures are nought or without end.
bool is_without_clock(std::string_view text) {
  return text.find("Correlation coefficient") != std::string_view::npos;
}

}  // namespace

Expected<double> parse_perftest(const PerftestRun& run, std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line) && !is_head(run, line)) {
  }
  if (!lines) return not_understood(run, "no head of a table that is known", text);
  std::getline(lines, line);
  const std::vector<std::string> words = words_of(line);
  const std::size_t columns = is_bandwidth(run) ? kBandwidthColumns : kLatencyColumns;
  if (words.size() != columns) {
    return not_understood(run, "not " + std::to_string(columns) + " columns", text);
  }
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;
  if (!parse_number(words[0], bytes) || !parse_number(words[1], iterations) || bytes != run.bytes ||
      iterations != run.iterations) {
    return not_understood(run,
                          "not the row of " + std::to_string(run.bytes) + " bytes and " +
                              std::to_string(run.iterations) + " iterations",
                          text);
  }
  double value = 0;
  const std::string& word = words[is_bandwidth(run) ? kAverageColumn : kTypicalColumn];
  if (!parse_number(word, value) || !std::isfinite(value) || value <= 0) {
    return not_understood(run, "'" + word + "' is no figure above zero", text);
  }
  return is_bandwidth(run) ? value * kPerftestMegabyte : value;
}

Expected<Baseline> run_perftest(const PerftestRun& run, const std::vector<DevicePair>& pairs) {
  for (int i = 0; i < kTries; ++i) {
    const Expected<double> value = try_perftest(run, pairs);
    if (value) return Baseline{*value, false};
    if (!is_without_clock(value.error().context)) return value.error();
  }
  return Baseline{0, true};
}

Expected<std::vector<DevicePair>> device_pairs(const std::vector<std::string>& near,
                                               const std::vector<std::string>& far) {
  const std::string here = devices_here();
  if (here.empty()) {
    return Error{Status::unsupported,
                 "this host has no RDMA device: load the driver of its NIC, or make devices of "
                 "soft RoCE ('modprobe rdma_rxe', 'rdma link add rxe0 type rxe netdev NAME')"};
  }
  if (near.empty() || near.size() != far.size()) {
    return Error{Status::invalid_argument,
                 "name as many devices with --near as with --far, each pair with a way between "
                 "its two ends; this host has " +
                     here};
  }
  std::vector<DevicePair> pairs;
  for (std::size_t i = 0; i < near.size(); ++i) {
    for (const std::string& name : {near[i], far[i]}) {
      if (is_device(name)) continue;
      return Error{Status::not_found, "no RDMA device '" + name + "': this host has " + here};
    }
    pairs.push_back({near[i], far[i]});
  }
  return pairs;
}

}  // namespace simm::bench
