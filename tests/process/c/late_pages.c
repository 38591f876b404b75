/* One storage daemon of several is stopped: gets of the pages of all of them, from a program
 * compiled as C. `late_pages TRIES PAGES` gets page/0 to page/PAGES-1 of 4,096 bytes, all tries at
 * once, each into memory of its own. Prints one line for each try: its status, then for each page
 * '+' (there and whole), '-' (timeout) or '!' (any other status, or wrong bytes). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simm/simm.h"

enum { PAGE_BYTES = 4096, KEY_BYTES = 32, TIMEOUT_MS = 8000 };

/* As late_page_test.cpp has stored them. */
static unsigned char content(size_t page, size_t at) {
  return (unsigned char)((page * 131 + at * 7) >> 3);
}

static int is_whole(const unsigned char* bytes, size_t page) {
  size_t at;
  for (at = 0; at < PAGE_BYTES; ++at) {
    if (bytes[at] != content(page, at)) return 0;
  }
  return 1;
}

static char letter_of(const simm_result* result, const unsigned char* bytes, size_t page) {
  if (result->status == SIMM_TIMEOUT) return '-';
  return result->status == SIMM_OK && is_whole(bytes, page) ? '+' : '!';
}

static void note_status(void* context, uint64_t ticket, int status) {
  (void)ticket;
  *(int*)context = status;
}

int main(int argc, char** argv) {
  const size_t tries = argc == 3 ? (size_t)atoi(argv[1]) : 0;
  const size_t pages = argc == 3 ? (size_t)atoi(argv[2]) : 0;
  char(*keys)[KEY_BYTES] = calloc(pages + 1, KEY_BYTES);
  simm_item* items = calloc(tries * pages + 1, sizeof *items);
  simm_result* results = calloc(tries * pages + 1, sizeof *results);
  int* statuses = calloc(tries + 1, sizeof *statuses);
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  simm_call_options call = SIMM_CALL_OPTIONS_INIT;
  simm_client** clients = calloc(tries + 1, sizeof *clients); /* each has a lane of its own */
  simm_region* region = NULL;
  const unsigned char* bytes;
  size_t i, t;
  if (tries == 0 || pages == 0 || keys == NULL || items == NULL || results == NULL ||
      statuses == NULL || clients == NULL) {
    fprintf(stderr, "usage: late_pages TRIES PAGES\n");
    return 1;
  }
  options.lanes = 24;
  options.async_lanes = 22;
  options.name = "late-pages";
  call.timeout_ms = TIMEOUT_MS;
  for (t = 0; t < tries; ++t) {
    if (simm_connect(&options, &clients[t]) != SIMM_OK) {
      fprintf(stderr, "late_pages: %s\n", simm_last_error());
      return 1;
    }
  }
  if (simm_region_allocate(clients[0], tries * pages * PAGE_BYTES, NULL, &region) != SIMM_OK) {
    fprintf(stderr, "late_pages: %s\n", simm_last_error());
    return 1;
  }
  bytes = simm_region_data(region);
  for (i = 0; i < pages; ++i) snprintf(keys[i], KEY_BYTES, "page/%u", (unsigned)i);
  for (t = 0; t < tries; ++t) {
    for (i = 0; i < pages; ++i) {
      simm_item* item = &items[t * pages + i];
      item->key = keys[i];
      item->key_bytes = strlen(keys[i]);
      item->region = region;
      item->offset = (t * pages + i) * PAGE_BYTES;
      item->length = PAGE_BYTES;
    }
    statuses[t] = simm_get_async(clients[t], &items[t * pages], pages, &results[t * pages], &call,
                                 note_status, &statuses[t], NULL);
  }
  for (t = 0; t < tries; ++t) {
    while (simm_pending(clients[t]) != 0) {
      simm_wait(clients[t], 1000);
      simm_poll(clients[t]);
    }
    printf("%d ", statuses[t]);
    for (i = 0; i < pages; ++i) {
      const size_t at = t * pages + i;
      putchar(letter_of(&results[at], bytes + at * PAGE_BYTES, i));
    }
    putchar('\n');
  }
  simm_region_free(region);
  for (t = 0; t < tries; ++t) simm_close(clients[t]);
  free(clients);
  free(statuses);
  free(results);
  free(items);
  free(keys);
  return 0;
}
