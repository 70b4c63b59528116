"""The kinds this Quoracy knows. The one place in the core that names them all."""

from quoracy.core import cluster, federated, ranks, witnessed
from quoracy.core.run import Kinds

KINDS = Kinds((cluster.KIND, federated.KIND, witnessed.KIND))
"""What a server can serve."""

PEERLESS = Kinds((ranks.KIND,))
"""What its members host themselves. A server that finds such a run leaves it alone."""

ALL = Kinds((cluster.KIND, federated.KIND, witnessed.KIND, ranks.KIND))
"""What can be read: shown, verified, documented."""
