"""A driver on which nothing is done by itself."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="session")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver still_driver.c."""
    folder = tmp_path_factory.mktemp("still")
    source = Path(__file__).with_name("still_driver.c")
    flags = ["-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", f"-I{ROOT / 'native' / 'cuda'}"]
    versions = folder / "versions"
    versions.write_text("still { global: *; };")
    names = [f"-Wl,--version-script={versions}", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(["cc", *flags, str(source), *names], check=True)
    return folder
