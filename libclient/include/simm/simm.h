/* The C interface of libsimm: the same as simm/client.h, with opaque handles and integer codes.
 *
 * Codes: 0 is success, negative values are those of simm::Status (SIMM_*). They never change.
 * After a failing call simm_last_error() tells in words what was wrong: the field, its value, the
 * remedy. Strings given are copied, unless a function says otherwise. Sizes are bytes. Thread: any
 * function from any thread, except that a handle must not be closed while it is used. Nothing
 * throws, nothing aborts because of an argument: NULL where a pointer is needed is
 * SIMM_INVALID_ARGUMENT.
 *
 * Structs with a `struct_size` field: set it to sizeof(the struct) and the rest to zero for the
 * defaults (the *_INIT macros do both); later versions only append fields. An older library takes
 * a newer struct whose new fields are zero, and answers SIMM_INCOMPATIBLE to others.
 */
#ifndef SIMM_SIMM_H
#define SIMM_SIMM_H

#include <stddef.h>
#include <stdint.h>

#include "simm/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIMM_OK 0
#define SIMM_INVALID_ARGUMENT (-1000)
#define SIMM_NOT_IMPLEMENTED (-1001)
#define SIMM_TIMEOUT (-1002)
#define SIMM_OUT_OF_MEMORY (-1003)
#define SIMM_INVALID_STATE (-1004)
#define SIMM_POISONED (-1005)
#define SIMM_PERMISSION_DENIED (-1006)
#define SIMM_UNSUPPORTED (-1007)
#define SIMM_INCOMPATIBLE (-1008)
#define SIMM_IO_ERROR (-1009)
#define SIMM_UNREACHABLE (-2300)
#define SIMM_NOT_FOUND (-4003)
#define SIMM_NO_SPACE (-4006)
#define SIMM_TRANSFER_FAILED (-4008)
#define SIMM_CANCELLED (-4009)

typedef struct simm_client simm_client;
typedef struct simm_region simm_region;
typedef struct simm_namespace simm_namespace;

/* "timeout" for SIMM_TIMEOUT, "unknown" for a code that is none. Static storage. */
const char* simm_status_name(int code);
/* What a code means and what to do about it; "unknown" for a code that is none. Static storage. For
 * a code that was kept, as that of a page or of a batch: simm_last_error() says more, of the last
 * call alone. */
const char* simm_status_text(int code);
/* The failure of this thread's last call in words; "" when nothing of it failed (a page that is not
 * found is no failure). Valid until the thread's next call. Functions that only look at something
 * and those that free (but simm_gpu_free) leave it alone: names, simm_attached, simm_pending,
 * simm_region_data, _size, _kind_of and _reason, simm_max_value_bytes. */
const char* simm_last_error(void);
/* Version of the library at run time, for instance "0.1.0". Static storage. */
const char* simm_version(void);

/* The trace that this thread's calls are part of from now on: "00-<trace>-<span>-<flags>", what the
 * caller's tracing library has as `traceparent` (W3C Trace Context). NULL or "": none. As
 * simm::set_trace_parent(), whose header (simm/trace.h) says more. */
int simm_set_trace_parent(const char* trace_parent);

enum simm_log_level { SIMM_LOG_INFO = 0, SIMM_LOG_WARNING = 1 };
typedef void (*simm_log_callback)(void* context, int level, const char* text);
/* What no call returns: that a session is lost, another one attached, memory copied from now on.
 * One callback for the process; NULL: none. Called at the end of a call, in its thread, while no
 * lock of the library is held; `text` is one line, and valid for that time. As simm::set_log(),
 * whose header (simm/log.h) says more. Must not throw. */
void simm_set_log(simm_log_callback callback, void* context);

/* --- client ------------------------------------------------------------------------------------
 */

enum simm_wait { SIMM_WAIT_ADAPTIVE = 0, SIMM_WAIT_SPIN = 1, SIMM_WAIT_EVENT = 2 };

typedef struct simm_client_options {
  size_t struct_size;
  const char* socket_path;     /* NULL: $SIMM_SOCKET, /run/simm, $XDG_RUNTIME_DIR/simm */
  const char* name;            /* NULL: the program's name */
  const char* manager_address; /* NULL: any; "host:port": refused when the daemon's differs */
  uint32_t lanes;              /* 0: 8 */
  uint32_t async_lanes;        /* 0: 2 */
  uint32_t wait;               /* enum simm_wait */
  /* Of calls without a timeout of their own: how long they wait when nothing moves. */
  uint32_t sync_timeout_ms;    /* 0: 1000 */
  uint32_t async_timeout_ms;   /* 0: 3000 */
  uint32_t connect_timeout_ms; /* 0: 5000 */
  uint64_t floor_bytes_per_s;  /* 0: 400000000 */
  uint64_t staging_bytes;      /* 0: 32 MiB */
  uint32_t no_reattach;        /* not 0: once the daemon has gone, calls stay unreachable */
} simm_client_options;
#define SIMM_CLIENT_OPTIONS_INIT \
  { sizeof(simm_client_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* `options` may be NULL. On success *out is a handle that simm_close() takes back. lanes,
 * async_lanes, wait and staging_bytes are decided by the first client of the process on a socket:
 * others are SIMM_INVALID_ARGUMENT, unless they are the default. */
int simm_connect(const simm_client_options* options, simm_client** out);
/* Waits for the client's asynchronous batches as ~Client does; callbacks are not called. NULL is
 * nothing. */
void simm_close(simm_client* client);
/* 1 while a daemon is attached, else 0. */
int simm_attached(const simm_client* client);
/* Of the daemon, as long as the client is open; "" for NULL. */
const char* simm_socket_path(const simm_client* client);
/* A round trip that does nothing. timeout_ms 0: the default. */
int simm_ping(simm_client* client, uint32_t timeout_ms);
/* The longest value that the daemon takes; 0 while it is away. */
uint64_t simm_max_value_bytes(const simm_client* client);

/* Counters of the process's session since it was first opened, as simm::ClientStats. */
typedef struct simm_client_stats {
  size_t struct_size;
  uint64_t submissions;
  uint64_t pages;
  uint64_t pages_ok;
  uint64_t bytes_moved;
  uint64_t bytes_staged; /* copied by libsimm */
  uint64_t timeouts;     /* pages */
  uint64_t unreachable;  /* pages */
  uint64_t lane_waits;   /* calls that found every lane taken */
  uint64_t attaches;     /* sessions opened, the first one included */
  uint64_t taken_back;   /* slices taken back from a stopped daemon */
  uint64_t bytes_made_present;
} simm_client_stats;
#define SIMM_CLIENT_STATS_INIT \
  { sizeof(simm_client_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Fills what both sides know of *out, whose struct_size the caller sets; newer fields stay. */
int simm_stats(const simm_client* client, simm_client_stats* out);

/* --- memory ------------------------------------------------------------------------------------
 */

enum simm_region_kind {
  SIMM_REGION_AUTOMATIC = 0,
  SIMM_REGION_SHARED = 1,
  SIMM_REGION_ADOPTED = 2,
  SIMM_REGION_STAGED = 3,
  SIMM_REGION_FOREIGN = 4,
  SIMM_REGION_GPU = 5
};

typedef struct simm_region_options {
  size_t struct_size;
  uint32_t kind;            /* register: enum simm_region_kind */
  uint32_t allow_foreign;   /* register, automatic: try foreign before staged */
  uint32_t wait_if_stopped; /* not 0: StoppedDaemon::wait, for memory that a device uses too */
  uint32_t huge_pages;      /* allocate */
  uint32_t bind_node;       /* allocate: 0 = no binding, else NUMA node + 1 */
  uint32_t no_prefault;     /* allocate */
  const char* name;         /* allocate: shown by `simmctl regions`; NULL: "simm" */
} simm_region_options;
#define SIMM_REGION_OPTIONS_INIT \
  { sizeof(simm_region_options), 0, 0, 0, 0, 0, 0, 0 }

/* As Client::allocate_region, register_region and register_fd. `options` may be NULL. */
int simm_region_allocate(simm_client* client, uint64_t bytes, const simm_region_options* options,
                         simm_region** out);
int simm_region_register(simm_client* client, void* address, uint64_t bytes,
                         const simm_region_options* options, simm_region** out);
int simm_region_register_fd(simm_client* client, int fd, uint64_t offset, uint64_t bytes,
                            void* address, const simm_region_options* options, simm_region** out);
void* simm_region_data(const simm_region* region);
uint64_t simm_region_size(const simm_region* region);
int simm_region_kind_of(const simm_region* region); /* enum simm_region_kind */
const char* simm_region_kind_name(int kind);
int simm_region_huge_pages(const simm_region* region); /* 1: it lies on huge pages, else 0 */
int simm_region_valid(const simm_region* region);      /* 1 until it is deregistered, then 0 */
/* Which kind and why, copied to `text` (cut to fit, always ended by 0). Returns its full length. */
size_t simm_region_reason(const simm_region* region, char* text, size_t text_bytes);
/* Waits at most for the region's own operations. Safe twice; the handle stays valid. */
int simm_region_deregister(simm_region* region);
/* Deregisters if need be and frees the handle (and memory that libsimm allocated). */
void simm_region_free(simm_region* region);

/* --- namespaces --------------------------------------------------------------------------------
 */

#define SIMM_EXACT_SIZE 1u   /* gets: a stored length other than the view's is not found */
#define SIMM_SHARED_READS 2u /* gets: other processes of this node read the same keys */
#define SIMM_IMMUTABLE 8u    /* namespaces only: keys are hashes of the values (batch.h) */
#define SIMM_RANGED 4u       /* gets: a view takes what it holds of a longer object (calls only) */

int simm_namespace_open(simm_client* client, const char* name, uint32_t flags,
                        simm_namespace** out);
void simm_namespace_free(simm_namespace* name_space);

/* --- what becomes of keys -----------------------------------------------------------------------
 */

/* As simm::KeyChange of simm/key_follower.h, which says more. */
enum simm_key_change {
  SIMM_KEY_STORED = 0,
  SIMM_KEY_REMOVED = 1,
  SIMM_KEY_EVICTED = 2,
  SIMM_KEY_EXPIRED = 3,
  SIMM_KEY_MOVED = 4,
  SIMM_KEY_DAMAGED = 5,
  SIMM_KEY_PRESENT = 6,
  SIMM_KEY_UNSURE = 7,   /* of no key: nothing is certain any more */
  SIMM_KEY_COMPLETE = 8, /* of no key: all keys that are there have been told */
};
typedef struct simm_key_token {
  uint64_t low;
  uint64_t high;
} simm_key_token;
typedef struct simm_key_event {
  uint32_t change; /* enum simm_key_change */
  uint32_t zero;
  simm_key_token token; /* of the key, which is never told itself */
  uint64_t bytes;       /* of the object */
} simm_key_event;
typedef struct simm_key_follower simm_key_follower;

#define SIMM_FOLLOW_PRESENT 1u /* behind each SIMM_KEY_UNSURE all keys that are there are told */
/* Follows the keys of a namespace (NULL: the default one) of this tenant. Asks nothing yet. */
int simm_follow_keys(simm_client* client, const simm_namespace* name_space, uint32_t flags,
                     simm_key_follower** out);
/* The next events: *got of them, at most `count`. Waits for the first one, at most timeout_ms; 0:
 * for nothing. SIMM_UNREACHABLE: no daemon now. SIMM_UNSUPPORTED: an older one. SIMM_INVALID_STATE:
 * its events.keys is off. A later call tries again. Thread: one at a time. */
int simm_key_follower_read(simm_key_follower* follower, simm_key_event* events, size_t count,
                           uint32_t timeout_ms, size_t* got);
/* Of a key, until SIMM_KEY_UNSURE is read. SIMM_INVALID_STATE: nothing was read yet. */
int simm_key_follower_token(const simm_key_follower* follower, const void* key, size_t key_bytes,
                            simm_key_token* out);
/* It follows no more. NULL is nothing. */
void simm_key_follower_free(simm_key_follower* follower);

/* --- data --------------------------------------------------------------------------------------
 */

/* One page; zero it first. Later versions append fields, and tell by `item_bytes` of the call's
 * options how large the caller's is. Either `region` and `offset`, or region NULL and `address`
 * inside a registered region.
 */
typedef struct simm_item {
  const void* key;
  size_t key_bytes; /* 1 to 1024 */
  const simm_region* region;
  const void* address;
  uint64_t offset;
  uint64_t length;        /* put: of the value; get: of the room for it */
  uint64_t object_offset; /* get: first byte of the object wanted */
  uint32_t depth;         /* put: position in its prefix, 0 = unknown */
} simm_item;

typedef struct simm_result {
  int32_t status; /* SIMM_* */
  uint32_t reserved;
  uint64_t bytes; /* get: bytes written; put, exists: the object's length */
} simm_result;

/* The end of one page of an asynchronous batch. */
typedef struct simm_page_end {
  uint64_t ticket;
  uint64_t user_data; /* the caller's for that page, else 0 */
  size_t index;       /* in the batch's items */
  uint64_t bytes;     /* as in the results */
  int32_t status;
  uint32_t reserved;
} simm_page_end;
typedef void (*simm_page_callback)(void* context, const simm_page_end* page);

typedef struct simm_call_options {
  size_t struct_size;
  const simm_namespace* name_space; /* NULL: the default namespace */
  uint32_t timeout_ms;              /* 0: the client's default plus an allowance for the bytes */
  uint32_t replace;                 /* put: not 0 = replace an existing object atomically */
  uint32_t ttl_ms;
  uint32_t lease_ms;
  uint32_t flags;    /* SIMM_EXACT_SIZE | SIMM_SHARED_READS | SIMM_RANGED */
  size_t item_bytes; /* sizeof(simm_item); 0: SIMM_ITEM_BYTES, as with NULL for the options */
  /* The caller's own room for the words of the failure: what simm_last_error() says of this call,
   * whichever threads have worked on it. Always ended by 0, cut to fit; "" when nothing failed. An
   * asynchronous batch writes there until it has completed. NULL: none is wanted. */
  char* error_text;
  size_t error_text_bytes;
  /* Asynchronous: called for each page as it ends, once, in simm_poll(), simm_drain() and
   * simm_wait() of the client; for the last page before the batch itself is handed back. As
   * CallReport::on_page, which says what it costs; must not throw. */
  simm_page_callback page_callback;
  void* page_context;
  const uint64_t* user_data; /* NULL, or one for each item; stays until the end */
} simm_call_options;
#define SIMM_CALL_OPTIONS_INIT \
  { sizeof(simm_call_options), 0, 0, 0, 0, 0, 0, sizeof(simm_item), 0, 0, 0, 0, 0 }
/* The size of simm_item in the first version: up to and with `depth`. */
#define SIMM_ITEM_BYTES (offsetof(simm_item, depth) + 2 * sizeof(uint32_t))

/* A batch of any length; results[i] answers items[i]. All but put and get look at the keys only.
 * Returns 0 when it was carried out, whatever became of its pages. `options` may be NULL. */
int simm_put(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options);
int simm_get(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options);
int simm_exists(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                const simm_call_options* options);
int simm_remove(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                const simm_call_options* options);
/* Keep the objects, and those placed together with them, from eviction until unpin, removal or the
 * end of their daemon. SIMM_NO_SPACE: the tenant's budget for pins is used up. */
int simm_pin(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options);
int simm_unpin(simm_client* client, const simm_item* items, size_t count, simm_result* results,
               const simm_call_options* options);

/* --- asynchronous batches ----------------------------------------------------------------------
 */

typedef struct simm_completed {
  uint64_t ticket;
  int32_t status;
  uint32_t reserved;
} simm_completed;

/* Called inside simm_poll() or simm_wait() of the client, which it may close; must not throw. */
typedef void (*simm_callback)(void* context, uint64_t ticket, int status);

/* As the calls above, without waiting: `items`, the keys, the memory and `results` must stay until
 * the batch has completed, by its callback or, with callback NULL, by simm_drain(). */
int simm_put_async(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                   const simm_call_options* options, simm_callback callback, void* context,
                   uint64_t* ticket);
int simm_get_async(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                   const simm_call_options* options, simm_callback callback, void* context,
                   uint64_t* ticket);
int simm_exists_async(simm_client* client, const simm_item* items, size_t count,
                      simm_result* results, const simm_call_options* options,
                      simm_callback callback, void* context, uint64_t* ticket);
int simm_remove_async(simm_client* client, const simm_item* items, size_t count,
                      simm_result* results, const simm_call_options* options,
                      simm_callback callback, void* context, uint64_t* ticket);
/* Readable when simm_poll() or simm_drain() has something to do. Owned by the client; -1: none. */
int simm_completion_fd(simm_client* client);
size_t simm_poll(simm_client* client);
size_t simm_drain(simm_client* client, simm_completed* out, size_t count);
/* Sleeps until a batch is done or the time has passed; calls the callbacks as simm_poll() does. */
void simm_wait(simm_client* client, uint32_t timeout_ms);
/* The same until at least `count` are done or none other is pending: those that lie ready for
 * simm_drain(), and callbacks that were called. Returns how many are done. */
size_t simm_wait_at_least(simm_client* client, size_t count, uint32_t timeout_ms);
/* 1: that pending batch has completed, so its memory is free, and it is still to be handed back. As
 * Client::has_completed. */
int simm_has_completed(simm_client* client, uint64_t ticket);
/* As Client::cancel: ends a pending batch early, without waiting. SIMM_NOT_FOUND: it has ended. */
int simm_cancel(simm_client* client, uint64_t ticket);
size_t simm_pending(const simm_client* client);

/* --- memory of a GPU ---------------------------------------------------------------------------
 */

/* Memory of GPU number `device` (as this process counts them) that simm_region_register() takes,
 * also between containers: one allocation of cuMemCreate with a POSIX descriptor, in whole granules
 * of 2 MiB. Loads NVIDIA's driver if the process has not; needs no client. `stream` is not used:
 * the memory is there when the call returns. Any thread. NULL: simm_last_error() says why.
 *
 * The two functions are what torch.cuda.memory.CUDAPluggableAllocator wants. Below
 * torch.cuda.MemPool NULL means "out of memory" to torch. */
void* simm_gpu_malloc(size_t bytes, int device, void* stream);
/* `bytes` and `device` as they were asked for. Waits until the GPU has done what this process
 * queued on any stream. A region of the memory keeps it until it is deregistered. A wrong address
 * frees nothing, and simm_last_error() says so; NULL is fine. */
void simm_gpu_free(void* address, size_t bytes, int device, void* stream);

/* As Client::lend_gpu: lends memory of a GPU that the caller has freed. `gpu`: "GPU-...", or a
 * number as this process counts them. notice_ms: 0 stands for 1,000. */
typedef struct simm_gpu_lease simm_gpu_lease;
int simm_gpu_lend(simm_client* client, const char* gpu, uint64_t bytes, uint32_t notice_ms,
                  simm_gpu_lease** out);
/* As GpuLease::reclaim: the memory is free again. Safe twice. */
int simm_gpu_reclaim(simm_gpu_lease* lease);
/* 0: the lease is over. */
uint64_t simm_gpu_lease_bytes(const simm_gpu_lease* lease);
/* Reclaims it as well. NULL is fine. */
void simm_gpu_lease_free(simm_gpu_lease* lease);

#ifdef __cplusplus
}
#endif

#endif /* SIMM_SIMM_H */
