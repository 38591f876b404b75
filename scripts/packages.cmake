# The Debian packages, made by CPack of the components that scripts/install.cmake describes;
# scripts/package.sh is the command, scripts/PACKAGES.md says what they hold. DESTDIR installs with
# prefix /usr: what belongs to /etc comes there, whatever prefix the build has.
set(SIMM_PACKAGE_MAINTAINER "SiMM maintainers <maintainers@simm.invalid>" CACHE STRING
  "Whom the packages name as their maintainer")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME simm)
set(CPACK_PACKAGE_VENDOR SiMM)
set(CPACK_PACKAGE_CONTACT "${SIMM_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_SOURCE_DIR}/build/packages)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL daemon library development)
add_dependencies(installed manual)
if(SIMM_PYTHON_BUILT)
  add_dependencies(installed simm_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
if(SIMM_GRPC_FOUND)
  list(APPEND CPACK_COMPONENTS_ALL kubernetes)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(deb ${CMAKE_SOURCE_DIR}/scripts/deb)
set(deb_out ${CMAKE_BINARY_DIR}/deb)
set(CPACK_PRE_BUILD_SCRIPTS ${deb_out}/stage.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "https://simm.invalid/")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/libclient)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(this_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME simm)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION net)
# The two programs that its postinst calls. A container without systemd gets them alone.
string(CONCAT CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "libsimm0 ${this_version}, "
  "systemd-standalone-sysusers | systemd-sysusers | systemd, "
  "systemd-standalone-tmpfiles | systemd-tmpfiles | systemd")
# libibverbs is found at run time, so dpkg-shlibdeps does not see it.
set(CPACK_DEBIAN_DAEMON_PACKAGE_RECOMMENDS "python3, libibverbs1")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS
  "python3-matplotlib, python3-zmq, python3-msgpack, perftest, etcd-server")
set(CPACK_COMPONENT_DAEMON_DESCRIPTION
"distributed memory pool for KV caches of LLM engines
SiMM keeps the key/value caches of inference engines in the memory of one
or many machines. This package has the daemon simmd in all its roles (node,
storage, manager), simmctl to inspect and administer it, simm-bench to
measure it and to replay traces, and the units that start it. No daemon is
started before an administrator enables its unit.")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${deb}/daemon/postinst;${deb}/daemon/prerm;${deb}/daemon/postrm;${deb_out}/conffiles")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libsimm0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"client library of SiMM, a memory pool for KV caches
Programs store pages in SiMM and fetch them through this library, which
talks to the daemon of their host by rings in shared memory.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${deb_out}/shlibs;${deb}/triggers")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsimm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libsimm0 ${this_version}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"client library of SiMM, development files
The headers of the C++ and the C interface, what pkg-config and
find_package(simm) read, and the guide with its examples.")

# The native module is of one version of the interpreter.
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-simm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
if(SIMM_PYTHON_BUILT)
  execute_process(COMMAND ${SIMM_PYTHON} -c "import sys; a, b = sys.version_info[:2]
print(f'python3 (>= {a}.{b}), python3 (<< {a}.{b + 1})')"
    OUTPUT_VARIABLE interpreter OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "libsimm0 ${this_version}, ${interpreter}, python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA "${deb}/python/postinst;${deb}/python/prerm")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "simm, python3-torch")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION
"SiMM for Python: a memory pool for KV caches
The module simm.kv: stores and fetches tensors and arrays in batches, with
the names and results that users of the SiMM SDK know.")

# Apart from `simm`: gRPC is 20 MB, which other hosts do not need.
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_NAME simm-kubernetes)
set(CPACK_DEBIAN_KUBERNETES_PACKAGE_SECTION net)
set(CPACK_COMPONENT_KUBERNETES_DESCRIPTION
"device plugin of SiMM for Kubernetes
Gives containers of a Kubernetes node the directory of their tenant, by the
namespace of their pod. The container image has this package, and the chart
in the documents of simm starts what it has.")

# Generated control files: the configuration is all of config/ that is installed in /etc/simm.
file(GLOB configurations CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/config config/*.json)
list(FILTER configurations EXCLUDE REGEX "\\.schema\\.json$")
list(TRANSFORM configurations REPLACE "(.+)" "/etc/simm/\\1\n")
list(JOIN configurations "" configurations)
file(WRITE ${deb_out}/conffiles "${configurations}")
file(WRITE ${deb_out}/shlibs "libsimm 0 libsimm0 (>= ${PROJECT_VERSION})\n")
configure_file(${deb}/stage.cmake.in ${deb_out}/stage.cmake @ONLY)
include(CPack)
