"""What pinned memory and copies ahead of their use buy: `python examples/emulation/pinning.py`.

The program that trains is src/gpuyard/emulation/demo/programs/train_copies.py, ordinary PyTorch. Half a minute.
"""

from gpuyard.emulation.demo.pinning import MEANING, step_times

print("AlexNet in batches of 64 on a P100: ms per step")
print(f"{'copies':<10}{'measured':>10}{'expected':>10}   which is")
for copies in step_times(steps=60):
    print(f"{copies.way:<10}{copies.step_ms:>10.1f}{copies.expected_ms:>10.1f}   {MEANING[copies.way]}")
