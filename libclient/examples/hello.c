/* Stores a page and fetches it back through the C interface.
 *   simmd all &  hello_c */
#include <simm/simm.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  simm_client* client = NULL;
  if (simm_connect(NULL, &client) != SIMM_OK) {
    fprintf(stderr, "%s\n", simm_last_error());
    return 1;
  }
  simm_region* region = NULL;
  if (simm_region_allocate(client, 1 << 20, NULL, &region) != SIMM_OK) {
    fprintf(stderr, "%s\n", simm_last_error());
    simm_close(client);
    return 1;
  }
  char* memory = simm_region_data(region);
  memcpy(memory, "hello", 5);

  simm_item item = {0};
  item.key = "greeting from C";
  item.key_bytes = strlen(item.key);
  item.region = region;
  item.offset = 0;
  item.length = 5;
  simm_result result;
  int failed = simm_put(client, &item, 1, &result, NULL) != SIMM_OK || result.status != SIMM_OK;

  item.offset = 4096;
  item.length = 64;
  failed = failed || simm_get(client, &item, 1, &result, NULL) != SIMM_OK ||
           result.status != SIMM_OK || result.bytes != 5;
  if (!failed) printf("%.5s\n", memory + 4096);

  simm_region_free(region);
  simm_close(client);
  return failed;
}
