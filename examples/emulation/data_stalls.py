"""Images per second on a V100, by loader processes and by disk: `python examples/emulation/data_stalls.py`.

The program that trains is src/gpuyard/emulation/demo/programs/train_files.py, ordinary PyTorch. A minute on two cores.
"""

from gpuyard.emulation.demo.stalls import stall, throughput

MODELS = ("alexnet", "resnet18", "resnet50")
WORKERS = ("1", "2", "3", "6", "12")
DISKS = ("6@180", "6@90", "6@45")
PRINTED = {  # by GPEmu: images/s with as many cores, and the part of an epoch spent waiting for the disk
    "alexnet": ((174, 300, 458, 940, 1657), 0.26),
    "resnet18": ((171, 304, 473, 870, 1000), 0.24),
    "resnet50": ((173, 299, 338, 338, 337), 0.01),
}

rates = throughput(MODELS, (*WORKERS, *DISKS))

print("Images/s by cores that decode, everything cached (GPEmu's figure in brackets)")
print(f"{'cores':<12}" + "".join(f"{model:>16}" for model in MODELS))
for row, workers in enumerate(WORKERS):
    cells = (f"{rates[model][workers]:.0f} ({PRINTED[model][0][row]})" for model in MODELS)
    print(f"{workers:<12}" + "".join(f"{cell:>16}" for cell in cells))

print("\nPart of an epoch spent waiting for the disk, 6 cores, 35% of the files cached (GPEmu: another disk, 8 GPUs)")
print(f"{'disk':<12}" + "".join(f"{model:>16}" for model in MODELS))
for disk in DISKS:
    cells = (f"{stall(rates[model], disk):.0%} ({PRINTED[model][1]:.0%})" for model in MODELS)
    print(f"{disk.partition('@')[2] + ' MB/s':<12}" + "".join(f"{cell:>16}" for cell in cells))
