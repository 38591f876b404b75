// CHECK: an invariant of our own code. It stays on in release builds. It must never depend on what
// a client, a file or a peer did: their mistakes are data (Status, poisoning), not assertions.
#pragma once

#include <cstdio>
#include <cstdlib>

#define SIMM_CHECK(condition)                                                                   \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      std::fprintf(stderr, "SIMM_CHECK failed at %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
