"""unrest(): daemons of a cluster are killed and stopped while engines work."""

import signal
import time

PATIENCE_S = 60
FAULTS_MIN = 4


def unrest(cluster, dice, seconds, progress, has_trouble, stopped_s):
    """Kills or stops one daemon after the other, each when progress() has changed since the last
    one, until has_trouble(). stopped_s: how long a daemon is stopped at most. How many faults there
    were."""
    end, faults = time.monotonic() + seconds, 0
    while time.monotonic() < end or faults < FAULTS_MIN:
        seen, patience = progress(), time.monotonic() + PATIENCE_S
        while progress() == seen and not has_trouble():
            assert time.monotonic() < patience, "it does not come back"
            time.sleep(0.01)
        if has_trouble():
            break
        daemon = cluster.daemons[dice.choice(["a", "b", "node", "node", "manager"])]
        time.sleep(dice.random() / 10)
        if dice.random() < 0.5:
            daemon.kill(signal.SIGKILL)
            time.sleep(dice.random() / 4)
            daemon.start()
        else:
            daemon.stop()
            try:
                time.sleep(dice.random() * stopped_s)
            finally:
                daemon.go_on()
        faults += 1
    return faults
