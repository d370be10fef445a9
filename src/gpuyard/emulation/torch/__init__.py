"""The emulated device under stock PyTorch. Importing this package imports nothing heavy and changes nothing."""

from __future__ import annotations

import os
import sys


def autoload() -> None:
    """Emulate if the environment asks for it; `import torch` calls this through the entry point `torch.backends`."""
    if not os.environ.get("GPUYARD_GPUS"):
        return  # before anything is imported: most programs that import torch want nothing of us
    from gpuyard.core.errors import GpuyardError
    from gpuyard.emulation.settings import Settings

    try:
        settings = Settings.from_environment()
        from gpuyard.emulation.torch.activate import activate

        if settings is not None:
            activate(settings)
    except GpuyardError as error:
        print(f"gpuyard: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
