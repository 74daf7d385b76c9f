"""Stands in for SGLang's CUDA kernels on a CPU.

SGLang 0.5.23 imports names from sgl_kernel whatever it runs on, and the real package does not import without CUDA. On a CPU
without AMX it then takes its own torch code for every layer of a plain dense model, so no name of this package is ever
called. Every name can be imported from here; calling one raises.

sgl_kernel.scalar_type must stay missing: SGLang has its own replacement for that one, which it takes when the import fails.
"""

import importlib.abc
import importlib.machinery
import sys

__version__ = "0.0.0"


def absent(module, name):
    """What `from module import name` gets: something that raises when it is called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def call(*args, **kwargs):
        raise NotImplementedError(f"{module}.{name} exists in CUDA builds only")

    return call


def __getattr__(name):
    return absent(__name__, name)


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes any sgl_kernel.x importable, as an empty package with the same behaviour."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(__name__ + ".") and fullname != __name__ + ".scalar_type":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = lambda name: absent(module.__name__, name)


sys.meta_path.append(Submodules())
