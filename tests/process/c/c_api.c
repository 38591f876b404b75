/* The whole C interface from a program compiled as C. Ends with the line number of the first thing
 * that is not as it should be, on stderr, and exit status 1. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "simm/simm.h"

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, simm_last_error()); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

static int called = 0;
static void on_done(void* context, uint64_t ticket, int status) {
  called += status == SIMM_OK && *(uint64_t*)context == ticket;
}

static simm_item item_of(const char* key, const simm_region* region, uint64_t offset,
                         uint64_t length) {
  simm_item item;
  memset(&item, 0, sizeof item);
  item.key = key;
  item.key_bytes = strlen(key);
  item.region = region;
  item.offset = offset;
  item.length = length;
  return item;
}

static int bad_arguments(simm_client* client, simm_region* region) {
  simm_item item = item_of("k", region, 0, 10);
  simm_result result;
  struct { /* of a header that has one more field */
    simm_call_options known;
    uint64_t later;
  } newer = {SIMM_CALL_OPTIONS_INIT, 1};
  newer.known.struct_size = sizeof newer;
  CHECK(simm_connect(NULL, NULL) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_put(NULL, &item, 1, &result, NULL) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_put(client, NULL, 1, &result, NULL) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_put(client, &item, 1, NULL, NULL) == SIMM_INVALID_ARGUMENT);
  CHECK(strstr(simm_last_error(), "results") != NULL);
  CHECK(simm_put(client, &item, 1, &result, &newer.known) == SIMM_INCOMPATIBLE);
  newer.later = 0; /* its default, which this library has as well */
  CHECK(simm_exists(client, &item, 1, &result, &newer.known) == SIMM_OK);
  newer.known.struct_size = 65536; /* no struct's size: the field was never set */
  CHECK(simm_exists(client, &item, 1, &result, &newer.known) == SIMM_INCOMPATIBLE);
  CHECK(simm_region_allocate(client, 0, NULL, &region) == SIMM_INVALID_ARGUMENT);
  CHECK(region == NULL);
  CHECK(simm_region_deregister(NULL) == SIMM_INVALID_ARGUMENT);
  item.length = 0;
  CHECK(simm_put(client, &item, 1, &result, NULL) == SIMM_OK);
  CHECK(result.status == SIMM_INVALID_ARGUMENT);
  CHECK(simm_put(client, NULL, 0, NULL, NULL) == SIMM_OK);
  simm_close(NULL);
  simm_region_free(NULL);
  simm_namespace_free(NULL);
  return 0;
}

static int asynchronous(simm_client* client, simm_region* region) {
  /* What a batch names stays until it has completed: the last two do so in simm_close(). */
  static simm_item item;
  static simm_result result;
  simm_completed completed;
  uint64_t ticket = 0;
  struct pollfd entry = {simm_completion_fd(client), POLLIN, 0};
  item = item_of("async", region, 0, 100);
  CHECK(entry.fd >= 0);
  CHECK(simm_put_async(client, &item, 1, &result, NULL, on_done, &ticket, &ticket) == SIMM_OK);
  while (simm_pending(client) != 0) {
    simm_wait(client, 1000);
    simm_poll(client);
  }
  CHECK(called == 1);
  CHECK(simm_get_async(client, &item, 1, &result, NULL, NULL, NULL, &ticket) == SIMM_OK);
  while (simm_drain(client, &completed, 1) == 0) CHECK(poll(&entry, 1, 5000) == 1);
  CHECK(completed.ticket == ticket && completed.status == SIMM_OK && result.bytes == 100);
  CHECK(simm_exists_async(client, &item, 1, &result, NULL, NULL, NULL, NULL) == SIMM_OK);
  CHECK(simm_remove_async(client, &item, 1, &result, NULL, NULL, NULL, NULL) == SIMM_OK);
  return 0; /* closing waits for the last two */
}

int main(void) {
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  simm_call_options call = SIMM_CALL_OPTIONS_INIT;
  simm_client* client = NULL;
  simm_region *region = NULL, *registered = NULL;
  simm_namespace* space = NULL;
  simm_item items[3];
  simm_result results[3];
  char reason[64];
  static char own[8192];

  CHECK(strcmp(simm_version(), SIMM_VERSION_STRING) == 0);
  CHECK(strcmp(simm_status_name(SIMM_TIMEOUT), "timeout") == 0);
  CHECK(strcmp(simm_status_name(-77), "unknown") == 0);
  CHECK(strstr(simm_status_text(SIMM_TIMEOUT), "deadline") != NULL);
  CHECK(strcmp(simm_status_text(-77), "unknown") == 0);
  options.lanes = 1;
  CHECK(simm_connect(&options, &client) == SIMM_INVALID_ARGUMENT && client == NULL);
  CHECK(strstr(simm_last_error(), "lanes = 1") != NULL);
  options.lanes = 4;
  options.name = "c-api-test";
  options.wait = SIMM_WAIT_EVENT;
  CHECK(simm_connect(&options, &client) == SIMM_OK);
  CHECK(simm_attached(client) == 1);
  CHECK(simm_ping(client, 0) == SIMM_OK);

  CHECK(simm_region_allocate(client, 1 << 16, NULL, &region) == SIMM_OK);
  CHECK(simm_region_size(region) == 1 << 16);
  CHECK(simm_region_kind_of(region) == SIMM_REGION_SHARED);
  CHECK(simm_region_reason(region, reason, sizeof reason) > 0 && reason[0] != '\0');
  CHECK(simm_region_register(client, own, sizeof own, NULL, &registered) == SIMM_OK);
  CHECK(simm_region_kind_of(registered) == SIMM_REGION_STAGED);
  memset(simm_region_data(region), 'x', 1 << 16);

  items[0] = item_of("one", region, 0, 1000);
  items[1] = item_of("two", region, 1000, 2000);
  items[2] = item_of("own", NULL, 0, 3000);
  items[2].address = own;
  memset(own, 'o', 3000);
  CHECK(simm_namespace_open(client, "c", SIMM_EXACT_SIZE, &space) == SIMM_OK);
  call.name_space = space;
  call.replace = 1;
  CHECK(simm_put(client, items, 3, results, &call) == SIMM_OK);
  CHECK(results[0].status == 0 && results[1].bytes == 2000 && results[2].status == 0);
  CHECK(simm_exists(client, items, 3, results, &call) == SIMM_OK && results[2].bytes == 3000);
  items[1].length = 2001;
  CHECK(simm_get(client, items, 3, results, &call) == SIMM_OK);
  CHECK(results[0].bytes == 1000 && results[1].status == SIMM_NOT_FOUND);
  CHECK(simm_exists(client, items, 1, results, NULL) == SIMM_OK);
  CHECK(results[0].status == SIMM_NOT_FOUND);
  CHECK(simm_pin(client, items, 3, results, &call) == SIMM_OK && results[2].status == 0);
  CHECK(simm_unpin(client, items, 3, results, &call) == SIMM_OK && results[0].status == 0);
  CHECK(simm_remove(client, items, 3, results, &call) == SIMM_OK && results[1].status == 0);
  CHECK(simm_pin(client, items, 3, results, &call) == SIMM_OK);
  CHECK(results[2].status == SIMM_NOT_FOUND);

  if (bad_arguments(client, region) != 0 || asynchronous(client, region) != 0) return 1;
  CHECK(simm_region_deregister(region) == SIMM_OK);
  CHECK(simm_region_deregister(region) == SIMM_OK);
  simm_region_free(region);
  simm_region_free(registered);
  simm_namespace_free(space);
  simm_close(client);
  return 0;
}
