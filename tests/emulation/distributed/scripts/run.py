"""What torchrun starts: joins a group and runs some of the scripts here, one after the other."""

import sys
from importlib import import_module

from tests.emulation.distributed.scripts.rank import begin, end

rank = begin(sys.argv[1] or None)
for name in sys.argv[2:]:
    import_module(f"tests.emulation.distributed.scripts.{name}").main(rank)
end()
