"""The emulated device under stock PyTorch. Importing this package imports nothing heavy and changes nothing."""

from __future__ import annotations

import sys


def autoload() -> None:
    """Called by `import torch` through the entry point group `torch.backends`: emulates if the environment asks for it."""
    from gpuyard.emulation.settings import Settings

    settings = Settings.from_environment()
    if settings is None:
        return
    from gpuyard.core.errors import GpuyardError

    try:
        from gpuyard.emulation.torch.activate import activate

        activate(settings)
    except GpuyardError as error:
        print(f"gpuyard: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
