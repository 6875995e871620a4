"""[liu2016]: dependent differential privacy, as far as our fragment of the paper goes."""
