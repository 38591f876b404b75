"""The boards by the names of their files."""
from boards.gpu import GPU
from boards.managers import MANAGERS
from boards.network import NETWORK
from boards.node import NODE
from boards.overview import OVERVIEW
from boards.storage import STORAGE
from boards.store import STORE
from boards.tenants import TENANTS

BOARDS = {"overview": OVERVIEW, "node": NODE, "storage": STORAGE, "store": STORE,
          "tenants": TENANTS, "network": NETWORK, "managers": MANAGERS, "gpu": GPU}
