#include "tests/sim/sim_requester.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_responder.h"

namespace simm::sim {
namespace {

std::vector<std::shared_ptr<WireRequest>>::iterator find_token(Path& path,
                                                               transport::RequestToken token) {
  return std::find_if(path.outstanding.begin(), path.outstanding.end(),
                      [&](const auto& request) { return request->token == token; });
}

}  // namespace

SimRequester::SimRequester(Network& network, std::uint32_t node, const base::Clock& clock)
    : network_(network), node_(node), clock_(clock) {}

SimRequester::~SimRequester() {
  crash();
}

void SimRequester::crash() {
  if (crashed_) return;
  crashed_ = true;
  network_.node_crashed(node_);
}

bool SimRequester::is_rid_of(base::PeerId peer) const {
  const std::uint32_t number = resolve(peer);
  return std::none_of(open_.begin(), open_.end(),
                      [&](const auto& request) { return request->to.peer.value == number; });
}

Status SimRequester::post(transport::Route asked, transport::RequestToken token,
                          const transport::Request& request) noexcept {
  const transport::Route route = resolved(asked);
  if (route.peer.value == 0) return Status::unreachable;
  const PathPtr path = crashed_ ? nullptr : network_.path(node_, *this, route);
  if (path == nullptr) return Status::unreachable;
  if (path->outstanding.size() + request.credits_keep >= network_.conditions.credits)
    return Status::no_space;
  if (find_token(*path, token) != path->outstanding.end()) {
    network_.report().violation("seam", "token posted twice on path %llu",
                                static_cast<unsigned long long>(path->id));
  }
  if (request.pages.empty() || request.pages.size() > ipc::kPagesPerSubmissionMax) {
    network_.report().violation("seam", "request of %zu pages", request.pages.size());
  }
  const std::shared_ptr<WireRequest> wire = WireRequest::of(token, request, clock_.now_ns());
  wire->serial = network_.next_serial();
  wire->node = node_;
  wire->to = route;
  wire->posted_ns = network_.loop().now_ns();
  path->outstanding.push_back(wire);
  open_.insert(wire);
  if (network_.tap != nullptr) network_.tap->on_posted(node_, *wire);
  network_.log_post(*wire);
  network_.on_posted(*wire);
  network_.to_server(path, [path, wire] {
    if (path->responder != nullptr) path->responder->on_arrival(path, wire);
  });
  return Status::ok;
}

void SimRequester::cancel(transport::Route route, transport::RequestToken token) noexcept {
  const PathPtr path = network_.current(node_, resolved(route));
  if (path == nullptr || path->node_closed) return;
  const auto found = find_token(*path, token);
  if (found == path->outstanding.end()) return;
  const std::uint64_t serial = (*found)->serial;
  if (network_.log().on()) {
    network_.log().line("node %u cancels request %llu", node_,
                        static_cast<unsigned long long>(serial));
  }
  network_.to_server(path, [path, serial] {
    if (path->responder != nullptr) path->responder->on_cancel_arrival(path, serial);
  });
}

void SimRequester::reset(transport::Route route, transport::RequestToken culprit) noexcept {
  const PathPtr path = network_.current(node_, resolved(route));
  if (path == nullptr) return;
  const auto found = find_token(*path, culprit);
  if (found != path->outstanding.end()) path->culprits.push_back((*found)->serial);
  network_.fence(path);
}

void SimRequester::on_answer(const PathPtr& path, std::uint64_t serial,
                             std::vector<transport::PageReply> pages) {
  for (const auto& request : path->outstanding) {
    if (request->serial != serial) continue;
    inbox_.push_back(Event{path, request, false, {}, std::move(pages)});
    return wake();
  }
}

void SimRequester::on_path_end(const PathPtr& path) {
  for (const auto& request : path->outstanding) {
    const bool guilty = std::find(path->culprits.begin(), path->culprits.end(), request->serial) !=
                        path->culprits.end();
    inbox_.push_back(
        Event{path,
              request,
              true,
              guilty ? transport::FenceCause::reset : transport::FenceCause::collateral,
              {}});
  }
  wake();
}

int SimRequester::do_work() noexcept {
  int done = 0;
  for (std::size_t left = network_.dice().between(1, 16); left > 0 && !inbox_.empty(); --left) {
    Event event = std::move(inbox_.front());
    inbox_.pop_front();
    auto& open = event.path->outstanding;
    const auto found = std::find(open.begin(), open.end(), event.request);
    // An answer that came before a reset but was not taken yet: the token will be fenced instead.
    if (found == open.end() || (event.path->node_closed && !event.fenced)) continue;
    open.erase(found);
    open_.erase(event.request);
    ++done;
    if (event.fenced) {
      events_->on_fenced(event.request->token, event.cause);
    } else {
      events_->on_reply(event.request->token, event.pages);
    }
  }
  if (!inbox_.empty()) wake();
  return done;
}

}  // namespace simm::sim
