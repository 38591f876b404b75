# What `cmake --install` installs and where. Targets name their rules beside themselves, through the
# functions below; what is no target is listed here. Components, which are also the packages:
# daemon (simmd, tools, units, configuration, documents), library, development, python, kubernetes.
#
# Directories are GNUInstallDirs. On Debian the default of LIBDIR is the multiarch one with any
# prefix (its dynamic linker, pkg-config and CMake search it under /usr/local as well), so that one
# build tree serves `cmake --install` and the packages.
if(EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Object code libraries")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What is linked with libsimm finds it where it lies seen from bin: an installed tree can be moved.
file(RELATIVE_PATH simm_rpath /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set(simm_rpath "$ORIGIN/${simm_rpath}")
set(simm_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/simm)

# Everything that is installed, and no test.
add_custom_target(installed)

# simm_install_manuals(DIR COMPONENT): the manual pages and completions that lie in DIR.
function(simm_install_manuals dir component)
  file(GLOB pages CONFIGURE_DEPENDS ${dir}/*.[1-8])
  foreach(page ${pages})
    string(REGEX MATCH "[1-8]$" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
  endforeach()
  file(GLOB completions CONFIGURE_DEPENDS ${dir}/*.bash)
  foreach(completion ${completions})
    get_filename_component(name ${completion} NAME_WE)
    install(FILES ${completion} RENAME ${name} COMPONENT ${component}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  endforeach()
  file(GLOB completions CONFIGURE_DEPENDS ${dir}/*.zsh)
  foreach(completion ${completions})
    get_filename_component(name ${completion} NAME_WE)
    install(FILES ${completion} RENAME _${name} COMPONENT ${component}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  endforeach()
  file(GLOB completions CONFIGURE_DEPENDS ${dir}/*.fish)
  install(FILES ${completions} COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# simm_install_program(NAME DIR COMPONENT): a program, and what lies in its folder as above.
function(simm_install_program name dir component)
  add_dependencies(installed ${name})
  install(TARGETS ${name} COMPONENT ${component})
  simm_install_manuals(${dir} ${component})
endfunction()

# libsimm with its headers and what finds it: pkg-config and find_package(simm).
function(simm_install_library name)
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} INTERFACE cxx_std_20)
  install(TARGETS ${name} EXPORT simm-targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT simm-targets NAMESPACE simm:: DESTINATION ${simm_cmake_dir} COMPONENT development)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/libclient/simm-config.cmake.in
    ${CMAKE_BINARY_DIR}/simm-config.cmake INSTALL_DESTINATION ${simm_cmake_dir}
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/simm-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/simm-config.cmake ${CMAKE_BINARY_DIR}/simm-config-version.cmake
    DESTINATION ${simm_cmake_dir} COMPONENT development)

  # Of ipc/include only what the public headers are made of.
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/libclient/include/simm/*.h)
  install(FILES ${headers} ${CMAKE_SOURCE_DIR}/ipc/include/simm/compiler.h
    ${CMAKE_SOURCE_DIR}/ipc/include/simm/status.h
    ${CMAKE_SOURCE_DIR}/ipc/include/simm/expected.h
    ${CMAKE_SOURCE_DIR}/ipc/include/simm/version.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/simm COMPONENT development)

  file(RELATIVE_PATH simm_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${CMAKE_SOURCE_DIR}/libclient/simm.pc.in ${CMAKE_BINARY_DIR}/simm.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/simm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endfunction()

# Documents keep their places in the tree, so that the links between them lead somewhere. Those of
# tests and scripts are for who has the sources.
file(GLOB_RECURSE documents CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  ipc/*.md daemon/*.md libclient/*.md python/*.md systemd/*.md)
list(APPEND documents README.md)
foreach(document ${documents})
  set(component daemon)
  if(document STREQUAL libclient/API.md)
    set(component development)
  endif()
  get_filename_component(dir ${document} DIRECTORY)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${dir} COMPONENT ${component})
endforeach()
install(DIRECTORY systemd/drop-ins DESTINATION ${CMAKE_INSTALL_DOCDIR}/systemd COMPONENT daemon
  OPTIONAL)
install(DIRECTORY libclient/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}/libclient
  COMPONENT development)
file(GLOB examples CONFIGURE_DEPENDS config/*.yml)
install(FILES ${examples} DESTINATION ${CMAKE_INSTALL_DOCDIR}/config COMPONENT daemon)
# Grafana's provisioning reads the dashboards where they are installed.
file(GLOB dashboards CONFIGURE_DEPENDS config/grafana/*.json)
install(FILES ${dashboards} DESTINATION ${CMAKE_INSTALL_DATADIR}/simm/grafana COMPONENT daemon)
install(DIRECTORY config/grafana/provisioning DESTINATION ${CMAKE_INSTALL_DOCDIR}/config/grafana
  COMPONENT daemon)
install(DIRECTORY config/kubernetes DESTINATION ${CMAKE_INSTALL_DOCDIR}/config COMPONENT daemon)
file(GLOB schemas CONFIGURE_DEPENDS config/*.schema.json)
install(FILES ${schemas} DESTINATION ${CMAKE_INSTALL_DATADIR}/simm COMPONENT daemon)
install(PROGRAMS scripts/demo.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME simm-demo
  COMPONENT daemon)
simm_install_manuals(${CMAKE_SOURCE_DIR}/scripts daemon)

if(SIMM_PORTABLE)
  simm_install_licenses()
endif()

# Units and configuration name absolute paths, which are known when it is installed.
configure_file(scripts/install_system.cmake.in install_system.cmake @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_system.cmake COMPONENT daemon)
