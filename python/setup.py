"""Builds a wheel from the CMake tree: `pip wheel --no-build-isolation --no-deps python/`.

CMake makes the extension module and libsimm, which the wheel holds side by side. SIMM_BUILD_DIR
names a build tree to take them from, which saves building them again; SIMM_JOBS (2) bounds
parallel compilation. SIMM_WHEEL_PLATFORM (the build machine's) is what the wheel's name says;
scripts/portable.sh makes wheels for other distributions.
"""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLATFORM = os.environ.get("SIMM_WHEEL_PLATFORM")
# Nothing is written beside the sources.
SCRATCH = ROOT / "build" / (f"wheel-{PLATFORM}" if PLATFORM else "wheel")


def version() -> str:
    text = (ROOT / "ipc/include/simm/version.h").read_text(encoding="utf-8")
    return re.search(r'SIMM_VERSION_STRING "(.*)"', text).group(1)


def cmake(*arguments: object) -> None:
    subprocess.run(["cmake", *map(str, arguments)], check=True)


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        build = pathlib.Path(os.environ.get("SIMM_BUILD_DIR") or SCRATCH / "cmake")
        if "SIMM_BUILD_DIR" not in os.environ:
            cmake("-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                  "-DBUILD_TESTING=OFF", f"-DSIMM_PYTHON={sys.executable}", "-Wno-dev")
        cmake("--build", build, "--target", "simm_python", "-j", os.environ.get("SIMM_JOBS", "2"))
        module = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        target = module.parent.parent
        cmake("--install", build, "--component", "wheel", "--strip",
              "--prefix", target)
        if not module.exists():
            suffix = sysconfig.get_config_var("EXT_SUFFIX")
            raise RuntimeError(f"{build} is for another Python than {sys.executable} (*{suffix}): "
                               "configure it with -DSIMM_PYTHON=, or leave SIMM_BUILD_DIR out")


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(version=version(),
      ext_modules=[Extension("simm._native", sources=[])],
      cmdclass={"build_ext": CMakeBuild},
      options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}}
      | ({"bdist_wheel": {"plat_name": PLATFORM}} if PLATFORM else {}))
