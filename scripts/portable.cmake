# SIMM_PORTABLE: programs, libsimm and the extension module for every Linux with the C library of
# the machine that builds them, or a newer one. What the distribution has as a library of its own
# is linked statically, the C++ runtime included. scripts/portable.sh is the command.
#
# Our code is not compiled otherwise: the objects are those of the preset `release`, out of the
# compiler cache. What is linked statically is not visible outside (the version scripts of libsimm
# and of the extension module see to that), and never meets another copy in the process.

# Cap'n Proto's own script takes an archive where its variables name one.
find_library(CapnProto_capnp_IMPORTED_LOCATION libcapnp.a REQUIRED)
find_library(CapnProto_kj_IMPORTED_LOCATION libkj.a REQUIRED)
set(OPENSSL_USE_STATIC_LIBS ON)
find_library(NUMA_LIBRARY libnuma.a REQUIRED)

# After the libraries were found, and before they are used.
function(simm_link_archives)
  foreach(name XXHASH:xxhash SECCOMP:seccomp LIBURING:uring)
    string(REGEX MATCH "(.*):(.*)" name ${name})
    find_library(SIMM_${CMAKE_MATCH_1}_ARCHIVE lib${CMAKE_MATCH_2}.a REQUIRED)
    set_target_properties(PkgConfig::${CMAKE_MATCH_1} PROPERTIES
      INTERFACE_LINK_LIBRARIES ${SIMM_${CMAKE_MATCH_1}_ARCHIVE})
  endforeach()
  target_link_libraries(PkgConfig::XXHASH INTERFACE xxhash_dispatch)
endfunction()

# libgcc_s is with every C library, and stays outside: what a callback of a program throws goes
# through libsimm, and a process can have one unwinder only. Without --gc-sections libstdc++'s
# std::random_device, which nobody uses here, would ask for a C library of version 2.36. A build-id
# would depend on the folder of the clone, and so would the room for the path to libsimm.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
add_link_options(-static-libstdc++ LINKER:--gc-sections LINKER:--build-id=none)

# Two files come from the sources of what is installed. libkj.a has exception.c++ with variables of
# threads that only a program may have. libxxhash.a has not what chooses the vector unit.
set(SIMM_KJ_SOURCE "" CACHE PATH "The folder of Cap'n Proto's source that holds kj/")
set(SIMM_XXHASH_SOURCE "" CACHE PATH "The source of xxHash")
if(NOT EXISTS ${SIMM_KJ_SOURCE}/kj/exception.c++
    OR NOT EXISTS ${SIMM_XXHASH_SOURCE}/xxh_x86dispatch.c)
  message(FATAL_ERROR "SIMM_PORTABLE needs SIMM_KJ_SOURCE='${SIMM_KJ_SOURCE}' and "
    "SIMM_XXHASH_SOURCE='${SIMM_XXHASH_SOURCE}': build with scripts/portable.sh, which gets them")
endif()
add_library(kj_exception OBJECT ${SIMM_KJ_SOURCE}/kj/exception.c++)
target_include_directories(kj_exception PRIVATE ${SIMM_KJ_SOURCE})
add_library(xxhash_dispatch STATIC ${SIMM_XXHASH_SOURCE}/xxh_x86dispatch.c)
set_target_properties(kj_exception xxhash_dispatch PROPERTIES UNITY_BUILD OFF)

# The licences of what is inside come along.
function(simm_install_licenses)
  foreach(library capnp numa uring seccomp xxhash ssl stdc++)
    file(GLOB license /usr/share/doc/lib${library}*-dev/copyright)
    list(GET license -1 license)  # of several compilers
    install(FILES ${license} RENAME ${library} DESTINATION ${CMAKE_INSTALL_DOCDIR}/copyright
      COMPONENT library)
    if(library STREQUAL capnp OR library STREQUAL stdc++)
      install(FILES ${license} RENAME ${library} DESTINATION simm/copyright COMPONENT wheel
        EXCLUDE_FROM_ALL)
    endif()
  endforeach()
endfunction()
