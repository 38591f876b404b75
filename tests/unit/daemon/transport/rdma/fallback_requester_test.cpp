// Which of two transports a request goes over.
#include "daemon/transport/rdma/fallback_requester.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace fallback_requester_test {

using namespace simm;
using namespace simm::transport;

struct Scripted final : Requester {
  void connect(RequesterEvents&, RegionFaults*) noexcept override {}
  Status post(Route route, RequestToken token, const Request&) noexcept override {
    said.push_back("post " + name(route, token));
    return answer;
  }
  void cancel(Route route, RequestToken token) noexcept override {
    said.push_back("cancel " + name(route, token));
  }
  void reset(Route route, RequestToken culprit) noexcept override {
    said.push_back("reset " + name(route, culprit));
  }
  int do_work() noexcept override { return work; }
  static std::string name(Route route, RequestToken token) {
    return std::to_string(route.peer.value) + "/" + std::to_string(route.shard) + " " +
           std::to_string(token);
  }

  Status answer = Status::ok;
  int work = 0;
  std::vector<std::string> said;
};

struct Two {
  explicit Two(bool is_second_used = true) : both(better, second, is_second_used) {}
  // With these answers of the two.
  Status post(Status of_better, Status of_second) {
    better.said.clear();
    second.said.clear();
    better.answer = of_better;
    second.answer = of_second;
    return both.post({base::PeerId{3}, 2}, 9, {});
  }
  Scripted better;
  Scripted second;
  FallbackRequester both;
};

using Said = std::vector<std::string>;

TEST_CASE("a request goes over the better transport alone while that can") {
  Two two;
  for (const Status answer : {Status::ok, Status::no_space, Status::invalid_argument}) {
    CHECK(two.post(answer, Status::io_error) == answer);
    CHECK(two.better.said == Said{"post 3/2 9"});
    CHECK(two.second.said.empty());
  }
}

TEST_CASE("a request goes over the other one without a path, or with memory that has none") {
  Two two;
  for (const Status refusal : {Status::unreachable, Status::unsupported}) {
    for (const Status answer : {Status::ok, Status::no_space, Status::unreachable}) {
      CHECK(two.post(refusal, answer) == answer);
      CHECK(two.better.said == Said{"post 3/2 9"});
      CHECK(two.second.said == Said{"post 3/2 9"});
    }
  }
}

TEST_CASE("where the other one is not used, requests wait for memory and fail without a path") {
  Two two(false);
  CHECK(two.post(Status::unsupported, Status::ok) == Status::no_space);
  CHECK(two.post(Status::unreachable, Status::ok) == Status::unreachable);
  CHECK(two.post(Status::no_space, Status::ok) == Status::no_space);
  CHECK(two.post(Status::ok, Status::io_error) == Status::ok);
  CHECK(two.second.said.empty());
}

TEST_CASE("cancel, reset and turns reach both transports") {
  for (const bool is_second_used : {true, false}) {
    Two two(is_second_used);
    two.both.cancel({base::PeerId{1}, 0}, 5);
    two.both.reset({base::PeerId{4}, 1}, 6);
    for (const Scripted* one : {&two.better, &two.second}) {
      CHECK(one->said == Said{"cancel 1/0 5", "reset 4/1 6"});
    }
    two.better.work = 2;
    two.second.work = 5;
    CHECK(two.both.do_work() == 7);
  }
}

}  // namespace fallback_requester_test
