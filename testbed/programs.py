"""Builds Kubernetes' own programs from Debian's source package, once, into a cache: `python -m testbed.programs`.

Debian has no package of the programs themselves, but all of their source, with every dependency. It takes some ten
minutes and 3 GB while it lasts, root, and Debian 12. Where that cannot be had, one line says what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

VERSION = "1.20.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
TO_BUILD = ("golang-go", "dpkg-dev", "golang-github-modern-go-reflect2-dev")
TO_RUN = (
    *("etcd-server", "containerd", "runc", "containernetworking-plugins", "iproute2", "iptables", "busybox-static"),
    *("gcc", "libc6-dev", "util-linux"),
)
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
REFLECT = "github.com/modern-go/reflect2"
OPENAPI = Path("pkg/generated/openapi")


class CannotBuildError(Exception):
    """Something that the testbed needs is not here and cannot be had."""


def cache() -> Path:
    """Where the programs are kept, outside of any copy of the repository."""
    told = os.environ.get("GPUYARD_TESTBED")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(told) if told else base / "gpuyard" / f"kubernetes-{VERSION}"


def programs() -> Path:
    """The folder of the programs, which are built if they are not there."""
    folder = cache() / "bin"
    missing = [name for name in PROGRAMS if not (folder / name).is_file()]
    if os.geteuid() != 0:
        raise CannotBuildError("a cluster with nodes of its own takes root")
    _install([name for name in TO_RUN if not _is_installed(name)])
    if missing:
        _build(missing, folder)
    return folder


def _build(missing: Sequence[str], folder: Path) -> None:
    _install([name for name in TO_BUILD if not _is_installed(name)])
    source = _source(cache() / "go" / "src" / "k8s.io" / "kubernetes")
    _replace_reflect(source / "vendor" / REFLECT)
    go = {**os.environ, "GO111MODULE": "off", "GOPATH": str(cache() / "go"), "CGO_ENABLED": "0", "GOFLAGS": ""}
    if not (source / OPENAPI / "zz_generated.openapi.go").is_file():
        _generate(source, go)
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        print(f"building {name}", file=sys.stderr, flush=True)
        target = folder / f"{name}.partial"
        _run(["go", "build", "-o", str(target), "-ldflags", _flags(), f"k8s.io/kubernetes/cmd/{name}"], source, go)
        target.replace(folder / name)


def _source(where: Path) -> Path:
    """The source, fetched by apt with lists of its own: the machine's stay as they are."""
    if where.is_dir():
        return where
    if not SOURCES.is_file():
        raise CannotBuildError(f"{SOURCES} is not there: the programs are built from Debian's source package")
    work = cache() / "source"
    (work / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sources = work / "deb-src.sources"
    sources.write_text(re.sub(r"(?m)^Types:.*$", "Types: deb-src", SOURCES.read_text()))
    options = (f"Dir::Etc::SourceList={sources}", "Dir::Etc::SourceParts=/dev/null", f"Dir::State::Lists={work}/lists")
    apt = ["apt-get", "-qq", *(word for each in options for word in ("-o", each))]
    _run([*apt, "update"], work)
    _run([*apt, "source", "--download-only", "kubernetes"], work)
    archive = next(iter(work.glob("kubernetes_*.orig.tar.gz")), None)
    if archive is None:
        raise CannotBuildError("the source package of Kubernetes has no archive")
    _run(["tar", "--extract", "--file", str(archive)], work)
    where.parent.mkdir(parents=True, exist_ok=True)
    (work / f"kubernetes-{VERSION}").rename(where)
    return where


def _replace_reflect(vendored: Path) -> None:
    """The version in the source faults when it is compiled by a Go of today; Debian's own package of it does not."""
    if (vendored / "go_above_118.go").is_file():
        return
    shutil.rmtree(vendored)
    shutil.copytree(Path("/usr/share/gocode/src") / REFLECT, vendored)


def _generate(source: Path, go: dict[str, str]) -> None:
    """The one file that the source package leaves out: definitions of all types that ask for one."""
    tool = cache() / "openapi-gen"
    _run(["go", "build", "-o", str(tool), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"], source, go)
    wanted = re.compile(rb"\+k8s:openapi-gen=")
    left_out = re.compile(r"_examples|/sample-|zz_generated|generators|code-generator")
    found = set()
    for folder in ("pkg", "cmd", "plugin", "staging/src/k8s.io"):
        for file in (source / folder).rglob("*.go"):
            name = file.relative_to(source).as_posix()
            if not left_out.search(name) and wanted.search(file.read_bytes()):
                found.add(Path(name).parent.as_posix())
    packages = [
        f"k8s.io/kubernetes/vendor/{name.removeprefix('staging/src/')}"
        if name.startswith("staging/src/")
        else f"k8s.io/kubernetes/{name}"
        for name in sorted(found)
    ]
    header = source / "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"
    _run([
        str(tool), "-i", ",".join(packages), "-p", f"k8s.io/kubernetes/{OPENAPI}", "-O", "zz_generated.openapi",
        "-h", str(header), "-r", str(cache() / "openapi-report.txt"),
    ], source, go)  # fmt: skip


def _flags() -> str:
    """Without debugging information, and with the version that programs say of themselves."""
    minor = VERSION.split(".")[1]
    values = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": minor}
    packages = ("component-base/version", "client-go/pkg/version")
    told = [f"-X k8s.io/kubernetes/vendor/k8s.io/{each}.{k}={v}" for each in packages for k, v in values.items()]
    return " ".join(["-s -w", *told])


def _is_installed(package: str) -> bool:
    asked = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "installed"
    except FileNotFoundError:
        raise CannotBuildError("this is no Debian: the testbed is made from Debian's packages") from None


def _install(packages: Sequence[str]) -> None:
    if not packages:
        return
    print(f"installing {', '.join(packages)}", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], Path("/"), quiet)
    _run(["apt-get", "install", "-qq", "--no-install-recommends", *packages], Path("/"), quiet)


def _run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CannotBuildError(f"{command[0]} is not here") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise CannotBuildError(f"{' '.join(command[:3])}: {last[0]}")


def main() -> None:
    """Print where the programs are; exit code 3 where they cannot be built."""
    try:
        print(programs())
    except CannotBuildError as error:
        print(f"testbed: no Kubernetes can be built here: {error}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
