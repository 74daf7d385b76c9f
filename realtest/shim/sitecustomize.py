"""Lets SGLang hand over KV cache that lies in host memory: Python runs this at its start, as the folder is in PYTHONPATH.

Without REAL_HOST_KV=1 it does nothing. SGLang 0.5.23 registers its cache with NIXL as "VRAM", which UCX refuses for host memory; here
that word means host memory. And NIXL's progress thread gets a pause of NIXL_PTHR_DELAY_US (500) instead of a core of its own.
"""

import os
import sys


class AfterImport:
    """Finds the module that holds nixl_agent as usual, and changes it when it has run."""

    def find_spec(self, name, path=None, target=None):
        if not (name.startswith("nixl_cu") and name.endswith("._api")):
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_and_change(module):
            run(module)
            host_memory(module)

        spec.loader.exec_module = run_and_change
        return spec


def host_memory(module):
    binding = module.nixlBind

    class Paused:
        """The binding, with a pause in the configuration of each agent."""

        def __getattr__(self, name):
            return getattr(binding, name)

        def nixlAgent(self, name, config):  # noqa: N802, the binding's own name
            config.pthrDelay = int(os.environ.get("NIXL_PTHR_DELAY_US", "500"))
            return binding.nixlAgent(name, config)

    module.nixlBind = Paused()
    begin = module.nixl_agent.__init__

    def begin_with_host_memory(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        self.nixl_mems["VRAM"] = self.nixl_mems["DRAM"]

    module.nixl_agent.__init__ = begin_with_host_memory


if os.environ.get("REAL_HOST_KV") == "1":
    sys.meta_path.insert(0, AfterImport())
