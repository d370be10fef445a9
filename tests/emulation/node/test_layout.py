"""The layout is the same for Python and for C."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.emulation.node.conftest import V100, OpenNode

from gpuyard.emulation.node import layout
from gpuyard.emulation.node.segment import path_of

PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "segment.h"
int main(int argc, char **argv) {
    int file = open(argv[argc - 1], O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about)) return 1;
    char *start = mmap(0, about.st_size, PROT_READ, MAP_SHARED, file, 0);
    struct gpuyard_header *header = (void *)start;
    struct gpuyard_gpu *gpu = (void *)(start + GPUYARD_HEADER_LENGTH + GPUYARD_GPU_STRIDE);
    struct gpuyard_client *client = (void *)((char *)gpu + GPUYARD_GPU_LENGTH);
    printf("%d %s %s %llu %llu %llu %.1f %.1f %.1f %.1f\\n", header->magic == GPUYARD_MAGIC, header->name, gpu->key,
           (unsigned long long)gpu->connected, (unsigned long long)client->pid, (unsigned long long)client->reserved,
           client->busy, client->breakpoints[0].rate, client->samples[0].done, client->samples[1].done);
    return 0;
}
"""


def test_a_c_program_reads_what_python_wrote(open_node: OpenNode, node_name: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "segment.h").write_text(layout.c_header())
    (tmp_path / "main.c").write_text(PROGRAM)
    program = tmp_path / "main"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", program, tmp_path / "main.c"], check=True)
    node = open_node(gpus=(V100, V100))
    client = node.connect(1)
    client.reserve(4096)
    now = node.clock.now()
    client.submit(now + 7.5, now, 7.5)
    client.submit(now + 8.0, now + 5.5, 8.0)  # records a sample of what is done by then
    said = subprocess.run([program, path_of(node_name)], check=True, capture_output=True, text=True).stdout
    assert said == f"1 {node_name} V100 1 {os.getpid()} 4096 8.0 1.0 0.0 5.5\n"


def test_every_number_is_aligned_and_records_follow_each_other() -> None:
    for record in (layout.HEADER, layout.GPU, layout.CLIENT, layout.BREAKPOINT, layout.SAMPLE):
        assert all(offset % layout.WORD == 0 for offset in record.offsets.values())
        assert record.length % layout.WORD == 0
    assert layout.client_offset(0, layout.MAX_CLIENTS) == layout.gpu_offset(1) == layout.segment_length(1)


def test_the_lock_that_says_who_is_attached_is_not_the_one_for_making() -> None:
    assert 0 < layout.ATTACHED < layout.HEADER.length
