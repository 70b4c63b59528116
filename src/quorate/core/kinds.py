"""The kinds this Quorate knows. The one place in the core that names them all."""

from quorate.core import cluster
from quorate.core.run import Kinds

KINDS = Kinds((cluster.KIND,))
