"""[liu2016]: dependent differential privacy, as far as our fragment of the paper goes."""

from undertow.papers.liu2016 import attacks, composition, mechanism, separations

__all__ = ["attacks", "composition", "mechanism", "separations"]
