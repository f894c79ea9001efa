"""Have a process that imports JAX or torch_xla be ready to record a profile of itself."""

import sys


class _Imports:
    """Finds no module, and notes the import of a framework with a profiler."""

    ready = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in {"jax", "torch_xla"} and not cls.ready:
            cls.ready = True
            try:
                import tpu_fleet_profile

                tpu_fleet_profile.begin()
            except Exception:  # noqa: S110 - the program begins without it
                pass


sys.meta_path.insert(0, _Imports)
