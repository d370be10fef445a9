"""What each job gets of a GPU that it shares: `python examples/emulation/sharing.py`.

The program that trains is src/gpuyard/emulation/demo/programs/train_steps.py, ordinary PyTorch. A minute on two cores.
"""

from gpuyard.emulation.demo.sharing import pair, rates_as_jobs_arrive

PRINTED = ("218", "111, 111", "74, 74, 74")  # by GPEmu, which repeats Salus, for batches of 128

print("ResNet-50 jobs arrive one after the other on a P100: images/s of each (GPEmu's figures in brackets)")
for rates, printed in zip(rates_as_jobs_arrive(steps=20), PRINTED, strict=True):
    print(f"{len(rates)}   {', '.join(f'{rate:.0f}' for rate in rates)}   ({printed})")

both = pair(steps=20)
print("\nResNet-18, decoded by two cores, and ResNet-50, all on the GPU, share a V100: images/s")
print(f"{'':<12}{'ResNet-18':>12}{'ResNet-50':>12}")
for name, (light, heavy) in {"alone": both.alone, "together": both.together}.items():
    print(f"{name:<12}{light:>12.0f}{heavy:>12.0f}")
print(f"One after the other they take {both.makespan_ratio:.2f} times as long as together (GPEmu 1.35, Muri 1.56).")
