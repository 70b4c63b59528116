"""The kinds this Quoracy knows. The one place in the core that names them all."""

from quoracy.core import serverwide
from quoracy.core.cluster import kind as cluster
from quoracy.core.federated import kind as federated
from quoracy.core.ranks import kind as ranks
from quoracy.core.run import Kinds
from quoracy.core.witnessed import kind as witnessed

KINDS = Kinds((cluster.KIND, federated.KIND, witnessed.KIND))
"""What a server can serve."""

PEERLESS = Kinds((ranks.KIND,))
"""What its members host themselves. A server that finds such a run leaves it alone."""

SERVER = Kinds((serverwide.KIND,))
"""What a server keeps of itself."""

ALL = Kinds((cluster.KIND, federated.KIND, witnessed.KIND, ranks.KIND))
"""Kinds of runs, wherever they are hosted."""

READABLE = Kinds((*ALL, *SERVER))
"""What can be in a journal: shown, verified, repaired."""
