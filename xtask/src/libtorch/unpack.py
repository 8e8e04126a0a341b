"""Extracts the parts of libtorch that a CPU-only program needs from wheels.

Usage: unpack.py <folder of wheels> <new folder>
"""

import pathlib
import re
import shutil
import sys
import zipfile

# CUDA and Python parts of the wheel, libraries of PyTorch's own tests, and libtorch.so, which only
# links libtorch_cpu.so to libtorch_cuda.so.
NOT_NEEDED = re.compile(
    r"lib(torch|shm|torch_python|torch_global_deps|caffe2_nvrtc|c10_cuda|torch_cuda.*"
    r"|torch_nvshmem|aoti_custom_ops|backend_with_compiler|.*_test)\.so"
)
LIBRARY = re.compile(r"lib[^/]+\.so[.0-9]*")
# libtorch_cpu.so of a CUDA build requires these two libraries, but never calls them on a CPU.
CUDA = re.compile(r"lib(cudart|cupti)\.so[.0-9]*")


def place(member):
    """Returns the target path of a file in a wheel, or None if it is not needed."""
    parts = pathlib.PurePosixPath(member).parts
    name = parts[-1]
    if parts[:2] == ("torch", "include"):
        return pathlib.Path(*parts[1:])
    if parts[:-1] in [("torch", "lib"), ("torch.libs",)]:
        if LIBRARY.fullmatch(name) and not NOT_NEEDED.fullmatch(name):
            return pathlib.Path("lib", name)
    if parts[0] == "nvidia" and parts[-2] == "lib" and CUDA.fullmatch(name):
        return pathlib.Path("lib", name)
    return None


def main():
    wheels, root = map(pathlib.Path, sys.argv[1:])
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                target = None if member.is_dir() else place(member.filename)
                if target is None:
                    continue
                target = root / target
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
        # The wheel is deleted first, because the next step needs the disk space.
        wheel.unlink()


main()
