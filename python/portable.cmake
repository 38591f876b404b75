# The extension module with libsimm inside, of the same objects. Side by side each would have a C++
# runtime of its own, and what a callback throws would go from one to the other. Visible are the
# function that Python calls, and the C interface: torch and others look it up in this file
# (simm._native.library_path()).
target_sources(simm_python PRIVATE $<TARGET_OBJECTS:simm>)
target_link_libraries(simm_python PRIVATE simm_flags simm_ipc kj_exception)
file(STRINGS ${CMAKE_SOURCE_DIR}/libclient/exports.txt exports REGEX "^simm_")
set(module_map ${CMAKE_CURRENT_BINARY_DIR}/module.map)
string(REPLACE ";" ";\n    " exports "PyInit__native;${exports};")
file(CONFIGURE OUTPUT ${module_map}
  CONTENT "{\n  global:\n    ${exports}\n  local: *;\n};\n")
set_target_properties(simm_python PROPERTIES LINK_DEPENDS ${module_map})
# Calls of our own never leave for a libsimm that the process may have as well.
target_link_options(simm_python PRIVATE LINKER:--version-script=${module_map}
  LINKER:-Bsymbolic LINKER:-z,nodelete)
