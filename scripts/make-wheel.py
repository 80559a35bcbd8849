#!/usr/bin/python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the wheel from a static build: the Python package with libraries, tools and kernels inside.

    scripts/make-wheel.py [BUILD] [FOLDER]       defaults: build-package, dist

The platform of the wheel is the oldest manylinux whose glibc has every symbol that the binaries need, at most
manylinux_2_34 (scripts/check-binaries.py). The wheel supports every Python 3, since the package calls the libraries
through ctypes."""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 30_000_000

METADATA = """\
Metadata-Version: 2.1
Name: tilewright
Version: {version}
Summary: Attention kernels for PyTorch, compiled for the masks, modifiers and widths of each call
License: Apache-2.0 WITH LLVM-exception
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: torch (>=2.4) ; extra == 'torch'
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: scripts/make-wheel.py
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def load_script(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(ROOT, "scripts", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_version(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        return next(line.split("=", 1)[1].strip() for line in cache if line.startswith("CMAKE_PROJECT_VERSION:"))


def stage_package(build, stage):
    """Writes the folder `tilewright` as in site-packages. Since zip files have no links, a library is stored only under
    the name that the loader looks for, and each tool is a separate file."""
    installed = os.path.join(build, "wheel-installed")
    shutil.rmtree(installed, ignore_errors=True)
    for component in ("runtime", "compiler", "tools"):
        subprocess.run(["cmake", "--install", build, "--prefix", installed, "--component", component], check=True,
                       stdout=subprocess.DEVNULL)
    package = os.path.join(stage, "tilewright")
    shutil.copytree(os.path.join(ROOT, "python", "tilewright"), package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(installed, "kernels"), os.path.join(package, "kernels"))
    shutil.copytree(os.path.join(installed, "bin"), os.path.join(package, "bin"))
    os.mkdir(os.path.join(package, "lib"))
    for library in glob.glob(os.path.join(installed, "lib", "libtilewright*.so.[0-9]")):
        shutil.copy(library, os.path.join(package, "lib"))
    return package


def ship_bundles(package):
    """Compiles the common configurations with the staged package, which then need not be compiled where it is installed:
    16-bit floats, widths of 64 and 128, with and without a causal mask, forward and backward, for sm_90a and sm_80. They
    hold machine code if this machine has a ptxas."""
    script = ("from tilewright import choice, compiler, places\n"
              "for each in choice.common_choices():\n"
              "    for device in (9, 0, 0), (8, 0, 0):\n"
              "        kernel, files = each.files()\n"
              "        compiler.compile_shipped(places.SHIPPED, kernel, each.params(), files, device=device,"
              " preferred_only=True)\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    subprocess.run([sys.executable, "-B", "-c", script], check=True,
                   env={**environment, "PYTHONPATH": os.path.dirname(package)})


def write_metadata(stage, version, platform, tools):
    folder = os.path.join(stage, f"tilewright-{version}.dist-info")
    os.mkdir(folder)
    with open(os.path.join(ROOT, "docs", "pytorch.md"), encoding="utf-8") as file:
        description = file.read().split("\n## ", 1)[0]
    texts = {
        "METADATA": METADATA.format(version=version, description=description.strip() + "\n"),
        "WHEEL": WHEEL.format(platform=platform),
        "entry_points.txt": "[console_scripts]\n" + "".join(f"{tool} = tilewright.tools:run\n" for tool in tools),
    }
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    shutil.copy(os.path.join(ROOT, "LICENSE"), folder)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build-package"))
    target = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "dist"))
    stage = os.path.join(build, "wheel")
    shutil.rmtree(stage, ignore_errors=True)
    package = stage_package(build, stage)
    mistakes, (major, minor) = load_script("check-binaries").check(package)
    if mistakes:
        sys.exit("\n".join(f"make-wheel: {mistake}" for mistake in mistakes))
    platform = f"manylinux_{major}_{max(minor, 17)}_x86_64"  # 2.17 is the first version with a name
    ship_bundles(package)
    tools = sorted(os.listdir(os.path.join(package, "bin")))
    write_metadata(stage, read_version(build), platform, tools)

    os.makedirs(target, exist_ok=True)
    for old in glob.glob(os.path.join(target, "tilewright-*.whl")):
        os.remove(old)
    subprocess.run(["/usr/bin/python3", "-m", "wheel", "pack", stage, "-d", target], check=True,
                   stdout=subprocess.DEVNULL)
    wheel, = glob.glob(os.path.join(target, "tilewright-*.whl"))
    size = os.path.getsize(wheel)
    print(f"{os.path.relpath(wheel)}: {size // 1000} kB")
    if size > LIMIT:
        sys.exit(f"make-wheel: larger than the {LIMIT} bytes it may have")


if __name__ == "__main__":
    main()
