/* A process that closes SiMM's descriptors, as a daemon does that closes all it did not open, while
 * their numbers become other files. Asynchronous batches on memory that is not taken back from a
 * stopped daemon must end all the same, and later ones work: `closed_descriptors PID_OF_DAEMON`. The
 * daemon is stopped while the batch is submitted, so that it first sees the end of the session.
 * Ends with 1 and the reason. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simm/simm.h"

enum { PATIENCE_S = 20 };

static int fail(const char* what) {
  fprintf(stderr, "closed_descriptors: %s; %s\n", what, simm_last_error());
  return 1;
}

static void replace_descriptors(void) {
  const int other = open("/dev/null", O_RDWR);
  int fd = 3;
  for (; fd < 1024; ++fd) {
    if (fd != other && fcntl(fd, F_GETFD) != -1) dup2(other, fd);
  }
}

typedef struct batch {
  simm_item item;
  simm_result result;
} batch;

static int submit(simm_client* client, batch* get) {
  simm_call_options options = SIMM_CALL_OPTIONS_INIT;
  options.timeout_ms = 500;
  return simm_get_async(client, &get->item, 1, &get->result, &options, NULL, NULL, NULL);
}

enum { HANGS = 1 }; /* no status: those are 0 or negative */
static int await(simm_client* client, const batch* get) {
  const time_t end = time(NULL) + PATIENCE_S;
  simm_completed completed;
  while (simm_drain(client, &completed, 1) == 0) {
    if (time(NULL) >= end) return HANGS;
    simm_wait(client, 50);
  }
  return get->result.status;
}

int main(int argc, char** argv) {
  const pid_t daemon = argc > 1 ? (pid_t)atoi(argv[1]) : 0;
  simm_client* client = NULL;
  simm_region* region = NULL;
  simm_region_options allocate = SIMM_REGION_OPTIONS_INIT;
  static batch get;
  time_t end;
  int submitted;
  if (simm_connect(NULL, &client) != SIMM_OK) return fail("connect");
  allocate.wait_if_stopped = 1;
  if (simm_region_allocate(client, 4096, &allocate, &region) != SIMM_OK) return fail("allocate");
  get.item.key = "closed";
  get.item.key_bytes = strlen(get.item.key);
  get.item.region = region;
  get.item.length = 4096;
  if (simm_put(client, &get.item, 1, &get.result, NULL) != SIMM_OK) return fail("put");
  if (daemon <= 0 || kill(daemon, SIGSTOP) != 0) return fail("no such daemon");
  submitted = submit(client, &get);
  replace_descriptors();
  kill(daemon, SIGCONT);
  if (submitted != SIMM_OK) return fail("get");
  if (await(client, &get) == HANGS) return fail("the batch has not ended");
  end = time(NULL) + PATIENCE_S;
  while (submit(client, &get) != SIMM_OK || await(client, &get) != SIMM_OK) {
    if (time(NULL) >= end) return fail("no later get works");
  }
  _exit(0); /* the client's own descriptors are gone */
}
