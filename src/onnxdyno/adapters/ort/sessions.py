"""A session from its recipe: the runtime's options by name, and the providers of a device."""

from typing import Any

import onnxruntime
from onnxruntime.capi import _pybind_state as internal

from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.sessions import ArenaStrategy, Optimisation, SessionRecipe
from onnxdyno.ports import Stream

FATAL = 4
CPU = "CPUExecutionProvider"
PROVIDERS = {DeviceKind.CPU: CPU, DeviceKind.CUDA: "CUDAExecutionProvider"}
_LEVELS = {
    Optimisation.NONE: "ORT_DISABLE_ALL",
    Optimisation.BASIC: "ORT_ENABLE_BASIC",
    Optimisation.EXTENDED: "ORT_ENABLE_EXTENDED",
    Optimisation.LAYOUT: "ORT_ENABLE_LAYOUT",
    Optimisation.ALL: "ORT_ENABLE_ALL",
}
_SAME_AS_REQUESTED = 1
_NO_LIMIT = 0


def session_options(device: Device, threads: int, recipe: SessionRecipe) -> Any:
    """The runtime's options; for an arena of its own on the CPU, the process's shared allocator is set too."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[recipe.optimisation])
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(recipe.spinning)))
    if recipe.profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = recipe.profile_prefix
    if recipe.optimised_path is not None:
        options.optimized_model_filepath = recipe.optimised_path
    if device.kind is DeviceKind.CPU and _has_own_arena(recipe):
        _share_arena(recipe)
        options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def providers(device: Device, recipe: SessionRecipe, stream: Stream | None = None) -> list[Any]:
    """The session's provider list, with options. Index 0: the process sees only the GPU it was pinned to by UUID."""
    if device.kind is DeviceKind.CPU:
        return [(CPU, dict(recipe.provider_options))] if recipe.provider_options else [CPU]
    options = {"device_id": "0", "cudnn_conv_algo_search": recipe.cudnn_search.value}
    if recipe.arena is ArenaStrategy.SAME_AS_REQUESTED:
        options["arena_extend_strategy"] = "kSameAsRequested"
    if recipe.arena_limit_bytes is not None:
        options["gpu_mem_limit"] = str(recipe.arena_limit_bytes)
    if stream is not None:
        options["user_compute_stream"] = str(stream.handle)
    if recipe.is_graph:
        options["enable_cuda_graph"] = "1"
    return [(PROVIDERS[device.kind], options | dict(recipe.provider_options)), CPU]


def _has_own_arena(recipe: SessionRecipe) -> bool:
    return recipe.arena is not ArenaStrategy.DEFAULT or recipe.arena_limit_bytes is not None


def _share_arena(recipe: SessionRecipe) -> None:
    """As a provider option the CPU's arena strategy is silently ignored (seen with 1.31)."""
    wanted = {"max_mem": recipe.arena_limit_bytes or _NO_LIMIT}
    if recipe.arena is ArenaStrategy.SAME_AS_REQUESTED:
        wanted["arena_extend_strategy"] = _SAME_AS_REQUESTED
    place = internal.OrtMemoryInfo("Cpu", internal.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, internal.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(place, internal.OrtArenaCfg(wanted))
