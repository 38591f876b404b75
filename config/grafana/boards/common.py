"""Rows and panels that several boards have."""
from board import lines


def counts(title, *names, **more):
    """Rates by instance: pairs of a counter and what it counts."""
    return lines(title, *((f"sum by (instance) (rate({name}))", "{{instance}} " + words)
                          for name, words in names), **more)


DAEMON = ("The process", (
    lines("Ready", ("min by (instance) (simm_ready)", "{{instance}}"), width=8,
          maximum=1,
          normal="1, but for some seconds after a start.",
          act="Ask the daemon: `curl http://HOST:PORT/readyz` says why the value is 0."),
    lines("CPU", ("sum by (instance) (rate(process_cpu_seconds_total))", "{{instance}}"), width=8,
          unit="percentunit",
          normal="100 % is one CPU. An idle daemon uses less than 1 %.",
          act="With `wait.mode: spin` each data thread burns a CPU by intent. "
              "Otherwise give the threads CPUs of their own: `threading.cpus`."),
    lines("Memory", ("sum by (instance) (process_resident_memory_bytes)", "{{instance}} present"),
          ("sum by (instance) (process_virtual_memory_bytes)", "{{instance}} address space"),
          width=8,
          normal="Flat once the pool is filled. Mapped regions of clients count as well.",
          act="If the memory grows for days, compare with sessions and regions, and report it."),
    lines("Descriptors", ("sum by (instance) (process_open_fds)", "{{instance}} open"),
          ("sum by (instance) (process_max_fds)", "{{instance}} limit"), width=8,
          normal="Open descriptors are far below the limit.",
          act="Raise `LimitNOFILE` of the unit before the two lines meet."),
    lines("Limits reached", ("sum by (instance, limit) (rate(simm_limit_reached_total))",
                             "{{instance}} {{limit}}"), width=8,
          normal="0.",
          act="LIMITS.md says for each limit what happens there, and which key raises it."),
    lines("Events", ("sum by (instance, result) (rate(simm_events_total))",
                     "{{instance}} {{result}}"), width=8,
          normal="Near 0. A burst comes with starts, and with changes of the members.",
          act="`simmctl events` shows them. `left_out`: one kind of event floods."),
))

THREADS = ("Data threads", (
    lines("Longest wait for a turn", ("max by (instance, thread) (simm_thread_turn_age_seconds)",
                                      "{{instance}} {{thread}}"),
          normal="At most 1 s; an idle thread has a turn at least that often.",
          act="Above 3 s the thread gets no CPU, or hangs: `simmctl errors`, the host's load."),
    lines("Turns longer than 10 ms",
          ("sum by (instance, thread) (rate(simm_thread_long_turns_total))",
           "{{instance}} {{thread}}"),
          normal="0 but for some at the start.",
          act="Others use the thread's CPU, or memory is faulted in: see "
              "\"It is slow\" in TROUBLESHOOTING.md."),
    lines("Longest turn since the start",
          ("max by (instance, thread) (simm_thread_turn_max_seconds)", "{{instance}} {{thread}}"),
          normal="Some milliseconds.",
          act="A step shows when the worst turn came: look at the panel beside at that moment."),
    lines("Turns and sleeps", ("sum by (instance) (rate(simm_thread_turns_total))",
                               "{{instance}} turns"),
          ("sum by (instance) (rate(simm_thread_sleeps_total))", "{{instance}} sleeps"), width=12,
          normal="An idle thread has about one turn a second.",
          act="Many turns without sleeps are busy waiting; `wait.mode` decides about that."),
    lines("Work done in turns",
          ("sum by (instance) (rate(simm_thread_work_total))", "{{instance}}"),
          width=12,
          normal="Follows the traffic.",
          act="If one instance has far more than the others, see which slots and clients it has."),
))
