# python_lifetimes: lifetimes.py on the instrumented extension, library and daemon. No fork: what a
# child of several threads may do, a sanitizer's allocator can not.
if(NOT SIMM_PYTHON_BUILT)
  add_test(NAME python_lifetimes COMMAND ${CMAKE_COMMAND} -E echo
    "SKIPPED: the Python package was not built: scripts/install_packages.sh, then configure again")
  set_tests_properties(python_lifetimes PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:")
  return()
endif()
# The interpreter is not instrumented: it has to load the runtimes before all else. libstdc++ is one
# of them, since they look for its exceptions when they start.
set(runtimes tsan stdc++)
if(SIMM_SANITIZE STREQUAL "address")
  set(runtimes asan ubsan stdc++)
endif()
set(preloaded)
foreach(runtime ${runtimes})
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${runtime}.so
    OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND preloaded ${file})
endforeach()
list(JOIN preloaded ":" preloaded)
# PYTHONMALLOC: each object is an allocation that the sanitizer knows. Leaks: CPython frees little
# of its own at its end. The quarantine is small, as the program looks whether memory stays flat.
set(environment LD_PRELOAD=${preloaded} PYTHONPATH=${CMAKE_BINARY_DIR}/python
  PYTHONDONTWRITEBYTECODE=1 PYTHONMALLOC=malloc
  SIMM_TEST_SIMMD=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/simmd
  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8
  TSAN_OPTIONS=halt_on_error=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/tsan.suppressions)
add_test(NAME python_lifetimes
  COMMAND ${SIMM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/lifetimes.py --no-fork)
set_tests_properties(python_lifetimes PROPERTIES LABELS concurrent COST 100
  ENVIRONMENT "${environment}")
