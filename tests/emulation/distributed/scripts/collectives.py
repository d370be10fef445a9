"""Every collective once, with values; then without, to see how long it takes."""

import torch
import torch.distributed as dist
from tests.emulation.distributed.scripts.rank import Stopwatch, found, host_time


def on_gpu(*numbers: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype, device="cuda")


def blank(count: int = 1) -> torch.Tensor:
    return torch.zeros(count, device="cuda")


def reductions(rank: int) -> None:
    found["backend"] = [dist.get_backend(), dist.is_nccl_available(), dist.get_backend_config()]

    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        tensor = on_gpu(rank + 1, 2 * rank)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        found[f"all_reduce {name}"] = tensor.tolist()
    flag = torch.tensor([rank == 1], device="cuda")
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    found["flag"] = bool(flag)
    counter = torch.tensor(2**40 + rank, device="cuda")
    work = dist.all_reduce(counter, async_op=True)
    assert work is not None
    work.wait()
    found["counter"] = [counter.item(), work.is_completed()]


def distributions(rank: int) -> None:
    world = dist.get_world_size()
    tensor = on_gpu(rank * 10)
    dist.broadcast(tensor, src=1)
    found["broadcast"] = tensor.tolist()
    tensor = on_gpu(rank + 5)
    dist.reduce(tensor, dst=1)
    found["reduce"] = tensor.tolist()
    gathered = [blank(2 + other) for other in range(world)]
    dist.all_gather(gathered, torch.full((2 + rank,), float(rank), device="cuda"))
    found["all_gather"] = [tensor.tolist() for tensor in gathered]
    whole = blank(2 * world)
    dist.all_gather_single(whole, on_gpu(rank, rank + 5))
    found["all_gather_single"] = whole.tolist()
    part = blank(2)
    dist.reduce_scatter_single(part, on_gpu(0, 1, 2, 3) * (rank + 1))
    found["reduce_scatter_single"] = part.tolist()
    dist.reduce_scatter(part, [on_gpu(rank, 1), on_gpu(rank, 2)])
    found["reduce_scatter"] = part.tolist()
    at_root = [blank() for _ in range(world)] if rank == 0 else None
    dist.gather(on_gpu(rank + 5), at_root, dst=0)
    found["gather"] = [tensor.tolist() for tensor in at_root or []]
    part = blank()
    dist.scatter(part, [on_gpu(7), on_gpu(8)] if rank == 0 else None, src=0)
    found["scatter"] = part.tolist()
    outputs = [blank() for _ in range(world)]
    dist.all_to_all(outputs, [on_gpu(10 * rank + other) for other in range(world)])
    found["all_to_all"] = [tensor.tolist() for tensor in outputs]
    uneven = blank(3)
    splits = [1, 2] if rank == 0 else [2, 1]
    dist.all_to_all_single(uneven, on_gpu(*(10 * rank + i for i in range(3))), [1, 2], splits)
    found["all_to_all_single"] = uneven.tolist()


def messages(rank: int) -> None:
    world = dist.get_world_size()
    received = blank()
    requests = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, on_gpu(rank), (rank + 1) % world),
            dist.P2POp(dist.irecv, received, (rank - 1) % world),
        ]
    )
    for request in requests:
        request.wait()
    found["ring"] = received.tolist()


def objects(rank: int) -> None:
    world = dist.get_world_size()
    objects: list[object] = [None] * world
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (3_000_000 * rank)})
    found["objects"] = [(item["rank"], len(item["text"])) for item in objects if isinstance(item, dict)]
    told = [{"from": rank}] if rank == 0 else [None]
    dist.broadcast_object_list(told, src=0, device=torch.device("cuda", rank))
    found["told"] = told
    handed: list[object] = [None]
    dist.scatter_object_list(handed, ["a", "b"] if rank == 0 else None, src=0)
    found["handed"] = handed


def host(rank: int) -> None:
    pair = dist.new_group([0, 1], backend="cpu:gloo,cuda:nccl")
    on_host = torch.ones(1)
    dist.all_reduce(on_host, group=pair)
    found["on host"] = on_host.tolist()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        found["host refused"] = str(error)


def durations(rank: int) -> None:
    large = torch.empty(8 << 20, device="cuda")
    with Stopwatch() as watch:
        dist.all_reduce(large)
    found["all_reduce ms"] = watch.milliseconds
    with Stopwatch() as watch:
        dist.broadcast(large, src=0)
    found["broadcast ms"] = watch.milliseconds
    with Stopwatch() as watch:
        work = dist.all_reduce(large, async_op=True)
        torch.cuda._sleep(int(0.05 * 1.38e9))
        assert work is not None
        work.wait()
    found["overlapped ms"] = watch.milliseconds

    begun = host_time()
    work = dist.all_reduce(large, async_op=True)
    found["issuing ms"] = 1e3 * (host_time() - begun)
    assert work is not None
    work.wait()
    dist.barrier()

    torch.cuda.synchronize()
    if rank == 1:
        torch.cuda._sleep(int(0.4 * 1.38e9))
    with Stopwatch() as watch:
        dist.all_reduce(large)
    found["with a straggler ms"] = watch.milliseconds

    dist.barrier(device_ids=[rank])
    if rank == 1:
        torch.cuda._sleep(int(0.2 * 1.38e9))
        torch.cuda.synchronize()
    begun = host_time()
    dist.barrier(device_ids=[rank])
    found["barrier ms"] = 1e3 * (host_time() - begun)


def main(rank: int) -> None:
    reductions(rank)
    distributions(rank)
    messages(rank)
    objects(rank)
    host(rank)
    durations(rank)
