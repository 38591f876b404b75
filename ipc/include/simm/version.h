/* Version of the client library: of the headers a program was compiled with (macros) and of the
 * library it runs with (simm_version()). C and C++. */
#pragma once

#define SIMM_VERSION_MAJOR 0
#define SIMM_VERSION_MINOR 1
#define SIMM_VERSION_PATCH 0
#define SIMM_VERSION_STRING "0.1.0"
