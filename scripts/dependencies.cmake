# What the distribution provides. Headers of others are system headers: their warnings are theirs.
if(SIMM_PORTABLE)
  include(scripts/portable.cmake)
endif()
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CapnProto REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(LIBIBVERBS REQUIRED libibverbs)
find_library(NUMA_LIBRARY numa REQUIRED)
if(SIMM_PORTABLE)
  simm_link_archives()
endif()

# Only the device plugin for Kubernetes needs gRPC.
set(SIMM_GRPC_FOUND FALSE)
if(SIMM_PORTABLE)
  message(STATUS "simm-device-plugin is not built: it is for the container image")
else()
  # pkg_check_modules() asks pkg-config fourteen times, which takes 20 s here.
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --libs grpc++ grpc protobuf
    OUTPUT_VARIABLE grpc_libraries OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_program(PROTOC protoc)
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin)
  if(grpc_libraries AND PROTOC AND GRPC_CPP_PLUGIN)
    set(SIMM_GRPC_FOUND TRUE)
    separate_arguments(grpc_libraries)
  else()
    message(STATUS "simm-device-plugin is not built: it needs libgrpc++-dev, libprotobuf-dev and "
      "protobuf-compiler-grpc (scripts/install_packages.sh)")
  endif()
endif()

# The library itself is found at run time: daemon/transport/rdma/device/verbs_library.h.
add_library(verbs_headers INTERFACE)
target_include_directories(verbs_headers SYSTEM INTERFACE ${LIBIBVERBS_INCLUDE_DIRS})
target_link_libraries(verbs_headers INTERFACE ${CMAKE_DL_LIBS})

add_library(boost_headers INTERFACE)
target_include_directories(boost_headers SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})

add_library(doctest INTERFACE)
find_path(DOCTEST_INCLUDE_DIR doctest/doctest.h REQUIRED)
target_include_directories(doctest SYSTEM INTERFACE ${DOCTEST_INCLUDE_DIR})
# An assertion is a call, which halves the time that tests take to compile. In optimised builds
# g++ 12 then warns of bounds that nobody passes.
target_compile_definitions(doctest INTERFACE
  $<$<CONFIG:Debug>:DOCTEST_CONFIG_SUPER_FAST_ASSERTS>)
