"""``python -m tests.golden``: compare every bit with the golden file; ``--write`` makes it anew."""

import sys

from tests.golden.files import computed, differences, read, write

if "--write" in sys.argv:
    write(computed())
else:
    found = list(differences(read(), computed()))
    sys.exit("\n".join(found) if found else None)
