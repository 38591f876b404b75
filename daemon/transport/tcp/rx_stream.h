// RxStream: the receiving half of a connection: cuts the stream into frames. Bodies are received
// straight into the memory that the handler names, followed, in the same receive, by the next
// header; only short bodies, and what follows them, pass through a small private stage.
// Owned by a TcpConnection. Thread: the data agent. No allocation after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/transport/frame_seal.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/wire.h"

namespace simm::transport {

class FrameHandler {
public:
  virtual ~FrameHandler() = default;
  // A frame begins. `target` is where its body goes (body_bytes of it); null: it is dropped. False:
  // the frame is not allowed here; the connection ends.
  [[nodiscard]] virtual bool on_frame(const wire::FrameHeader& header,
                                      std::byte*& target) noexcept = 0;
  // `bytes` more of the body, in order: they lie at `at` already, or (staged != null) have to be
  // copied there from `staged`. False: `at` can not be written; the rest is dropped.
  [[nodiscard]] virtual bool on_piece(std::byte* at, std::uint32_t bytes,
                                      const std::byte* staged) noexcept = 0;
  // The kernel could not write to the target. False: that can not be; the connection ends.
  [[nodiscard]] virtual bool on_fault() noexcept = 0;
  // The body is complete (also one that was dropped). False: the connection ends, or has ended.
  [[nodiscard]] virtual bool on_frame_end() noexcept = 0;
  // True: take no further frame for now.
  [[nodiscard]] virtual bool is_paused() const noexcept = 0;
};

class RxStream {
public:
  RxStream();

  void reset() noexcept;
  // A new connection begins, whose frames are sealed with that key.
  void begin(const FrameKey& key) noexcept { seal_ = FrameSeal(key); }
  [[nodiscard]] const FrameSeal& seal() const noexcept { return seal_; }
  // Where the next bytes go. Only when none are awaited.
  void prepare(IoSocket& socket) noexcept;
  // `bytes` arrived where prepare() said (0: goes on after a pause). False: the connection ends.
  [[nodiscard]] bool take(std::uint32_t bytes, FrameHandler& handler) noexcept;
  // The kernel answered EFAULT to the last prepare(): nothing has arrived.
  [[nodiscard]] bool take_fault(FrameHandler& handler) noexcept;

private:
  [[nodiscard]] std::uint32_t staged() const noexcept { return stage_end_ - stage_begin_; }
  void take_direct(std::uint32_t bytes, FrameHandler& handler) noexcept;
  void take_staged_body(FrameHandler& handler) noexcept;
  [[nodiscard]] bool take_header(FrameHandler& handler) noexcept;
  void compact() noexcept;

  FrameSeal seal_;
  std::unique_ptr<std::byte[]> stage_;
  std::uint32_t stage_begin_ = 0;
  std::uint32_t stage_end_ = 0;
  std::uint32_t direct_bytes_ = 0;  // how much of the receive under way goes to the target
  bool in_body_ = false;
  std::byte* target_ = nullptr;
  std::uint32_t body_left_ = 0;
};

}  // namespace simm::transport
