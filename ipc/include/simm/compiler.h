// What a program's compiler must be set to so that it and libsimm mean the same by std::string.
// Included first by every header of the C++ interface. Other settings would link, and corrupt
// memory. (simm/simm.h, the C interface, has no such types and works with all of them.)
#pragma once

#if __cplusplus < 202002L
#error "SiMM's C++ headers need C++20: compile with -std=c++20, or use the C interface simm/simm.h"
#endif

#include <cstddef>  // says which standard library this is

#ifdef _LIBCPP_VERSION
#error "libsimm is built with libstdc++: compile without -stdlib=libc++, or use simm/simm.h"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "libsimm has the new std::string: set -D_GLIBCXX_USE_CXX11_ABI=1, or use simm/simm.h"
#endif
