"""The flags of set_flag(): those that have an effect, and those of the published SDK that have none
here, each with the reason."""

from typing import Dict, Optional

from simm.log import logger, log_to_file

# Read when a Store is made (simm/settings.py). Value: the default.
EFFECTIVE = {
    "cm_primary_node_ip": "",
    "cm_primary_node_port": "30001",
    "clnt_sync_req_timeout_ms": "1000",
    "clnt_async_req_timeout_ms": "3000",
    "clnt_floor_bytes_per_s": "400000000",
    "clnt_log_file": "",
}

_NO_THREADS = "there is no thread pool: a call is carried out in parallel by the daemon"
_DAEMON = "a matter of the daemon's configuration (simmd --print-schema)"
_K8S = "the client talks to the daemon of its own node, which knows the manager"
_LOG = "logging is that of Python: logging.getLogger('simm')"
_REATTACH = "calls answer unreachable at once and attach again by themselves"
_TRACE = "traces are taken by the daemon"
_ONE_HASH = "the hash is part of the format"

WITHOUT_EFFECT = {
    "buildinfo": "simmd --version and python3 -m simm say it",
    "clnt_cm_addr_check_interval_inSecs": _K8S,
    "clnt_deferred_reshard_wait_inSecs": _K8S,
    "clnt_syncreq_enable_retry": _REATTACH,
    "clnt_syncreq_retry_count": _REATTACH,
    "clnt_thread_pool_size": _NO_THREADS,
    "clnt_use_k8s": _K8S,
    "cm_namespace": _K8S,
    "cm_port_name": _K8S,
    "cm_rpc_admin_port": _K8S,
    "cm_rpc_inter_port": _K8S,
    "cm_rpc_intra_port": _K8S,
    "cm_svc_name": _K8S,
    "dataserver_heartbeat_interval_inSecs": _DAEMON,
    "dataserver_max_num": _DAEMON,
    "dataserver_min_num": _DAEMON,
    "dataserver_namespace": _K8S,
    "dataserver_port_name": _K8S,
    "dataserver_svc_name": _K8S,
    "default_logging_file": _LOG,
    "default_logging_level": _LOG,
    "hash_seed": _ONE_HASH,
    "k8s_api_server": _K8S,
    "k8s_service_account": _K8S,
    "metrics_port": _DAEMON,
    "product_name": "a name only",
    "product_version": "a name only",
    "rpc_timeout_inSecs": _DAEMON,
    "shard_total_num": _DAEMON,
    "simm_enable_trace": _TRACE,
    "simm_trace_sample_rate": _TRACE,
    "simm_trace_shm_size_mb": _TRACE,
}

_values: Dict[str, str] = {}
_told = set()  # no lock, here and in log.py: a child could inherit it from a thread it has not


def set_flag(name: str, value: str) -> bool:
    """Set a flag for the Stores made from now on.

    True when `name` is a known flag. An unknown name is False, never an exception; a value that
    makes no sense is reported by Store(). Known flags without an effect here are logged once.
    Thread: any.
    """
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"set_flag({name!r}, {value!r}): both are str")
    if name in WITHOUT_EFFECT:
        if name not in _told:
            _told.add(name)
            logger.info("flag %s=%s has no effect: %s", name, value, WITHOUT_EFFECT[name])
        return True
    if name not in EFFECTIVE:
        logger.warning("flag %s=%s: there is no such flag", name, value)
        return False
    _values[name] = value
    if name == "clnt_log_file":
        log_to_file(value)
    return True


def flag(name: str) -> Optional[str]:
    """What set_flag() was given last, or None."""
    return _values.get(name)


def flag_number(name: str) -> int:
    """The value, or the default, of a flag that is a number from 1 to 2^32 - 1 (ValueError)."""
    text = flag(name)
    if text is None:
        text = EFFECTIVE[name]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 2**32:
        raise ValueError(f"flag {name} = {text!r}: a number from 1 to 4294967295")
    return int(text)
