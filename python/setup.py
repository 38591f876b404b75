"""Builds the wheel from the CMake tree: `pip wheel --no-build-isolation --no-deps python/`.

CMake makes the extension module and libsimm, which the wheel holds beside it.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent.parent


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        build = pathlib.Path(self.build_temp).resolve()
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja",
                        "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DBUILD_TESTING=OFF",
                        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
                        f"-DSIMM_PYTHON={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", str(build), "--target", "simm_python", "-j",
                        os.environ.get("SIMM_JOBS", "2")], check=True)
        module = next((build / "python" / "simm").glob("_native*.so"))
        shutil.copy2(module, target)
        shutil.copy2(build / "libclient" / "libsimm.so.0", target / "libsimm.so.0")


setup(ext_modules=[Extension("simm._native", sources=[])], cmdclass={"build_ext": CMakeBuild})
