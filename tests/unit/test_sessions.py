"""Sessions as their recipe says: what the runtime was really told, seen in what it reports and writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from factories import cpu_device, gpu_device
from onnxdyno.adapters.ort import OrtRuntime
from onnxdyno.adapters.ort.sessions import providers, session_options
from onnxdyno.domain.sessions import ArenaStrategy, CudnnSearch, Optimisation, SessionRecipe

CASES = Path(__file__).parents[1] / "cases"
MODEL = CASES / "unet_multiple_of_8.onnx"


def test_idle_threads_spin_unless_the_recipe_says_otherwise() -> None:
    key = "session.intra_op.allow_spinning"
    assert session_options(cpu_device(), 2, SessionRecipe()).get_session_config_entry(key) == "1"
    assert session_options(cpu_device(), 2, SessionRecipe(spinning=False)).get_session_config_entry(key) == "0"


@pytest.mark.parametrize("level", list(Optimisation))
def test_the_runtime_writes_the_graph_of_each_optimisation_level(tmp_path: Path, level: Optimisation) -> None:
    written = tmp_path / f"{level}.onnx"
    recipe = SessionRecipe(optimisation=level, optimised_path=str(written))
    OrtRuntime().load(MODEL, cpu_device(), 1, recipe)
    assert written.stat().st_size > 0


def test_profiling_is_on_when_a_prefix_is_given(tmp_path: Path) -> None:
    loaded = OrtRuntime().load(MODEL, cpu_device(), 1, SessionRecipe(profile_prefix=str(tmp_path / "seen")))
    written = loaded.end_profile()
    assert written is not None
    assert written.name.startswith("seen")
    assert json.loads(written.read_text())


def test_the_cuda_provider_is_told_search_arena_limit_and_graph_and_the_own_options_win() -> None:
    recipe = SessionRecipe(
        cudnn_search=CudnnSearch.HEURISTIC,
        arena=ArenaStrategy.SAME_AS_REQUESTED,
        arena_limit_bytes=2**30,
        is_graph=True,
        provider_options=(("prefer_nhwc", "1"), ("gpu_mem_limit", "7")),
    )
    (name, options), last = providers(gpu_device(), recipe)
    assert (name, last) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert options == {
        "device_id": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
        "gpu_mem_limit": "7",
        "enable_cuda_graph": "1",
        "prefer_nhwc": "1",
    }


def test_the_growth_of_the_arena_takes_effect_on_the_cpu(tmp_path: Path) -> None:
    """Each strategy in a process of its own, since the arena is. Which one holds less depends on the model."""
    held = {}
    path = str(Path(__file__).parents[1])
    for strategy in ArenaStrategy:
        code = (
            "import json, sys; from pathlib import Path; import numpy as np; from factories import cpu_device\n"
            "from onnxdyno.adapters.ort import OrtRuntime; from onnxdyno.domain.plan import Variant\n"
            "from onnxdyno.domain.sessions import SessionRecipe, ArenaStrategy\n"
            "recipe = SessionRecipe(arena=ArenaStrategy(sys.argv[1]), profile_prefix=sys.argv[2])\n"
            "loaded = OrtRuntime().load(Path(sys.argv[3]), cpu_device(), 1, recipe)\n"
            "loaded.bind({'x': np.zeros((1, 3, 256, 256), np.float32)}, Variant.E2E)()\n"
            "events = json.loads(loaded.end_profile().read_text())\n"
            "print(max(int(each['args'].get('mem_arena_held', 0)) for each in events if 'args' in each))"
        )
        command = [sys.executable, "-c", code, strategy.value, str(tmp_path / strategy), str(MODEL)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, path])},
        )
        held[strategy] = int(done.stdout)
    assert held[ArenaStrategy.SAME_AS_REQUESTED] != held[ArenaStrategy.DEFAULT]
