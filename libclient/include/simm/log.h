// What the library would like to say and no call returns. For example, a session is lost and
// another one attached, a daemon is not reached, or memory is copied from now on. Without a
// callback nothing of it is kept. SiMM itself prints nothing.
//
//   simm::set_log([](void*, simm::LogLevel, const char* text) noexcept { std::puts(text); });
//
// The library has no thread. An entry is told in the thread of a call: at the end of the call that
// met it, or of the next one. No lock of the library is held then, so the callback may call
// the library. One entry at a time is told, in their order, also with several threads. 32 wait;
// further ones are counted, and the number is told.
// Thread: any.
#pragma once

#include "simm/compiler.h"

#include <cstdint>

namespace simm {

enum class LogLevel : std::uint8_t {
  info = 0,     // how things are, for instance that another session is there
  warning = 1,  // what costs something until somebody does something about it
};

// `text`: one line without its end, valid for the time of the call.
using LogCallback = void (*)(void* context, LogLevel level, const char* text) noexcept;

// One for the process; null: none. When it returns, no other thread is in the callback of before.
void set_log(LogCallback callback, void* context = nullptr) noexcept;

}  // namespace simm
