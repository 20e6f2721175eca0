"""What people install: the wheel and the sdist hold every file of the package, and work away from the checkout."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

import pastalang

ROOT = Path(__file__).parents[2]
PROGRAM = '''\
template coffee(title: text)

system """
You extract product attributes. Write null when the listing does not say.
"""

user """
Title: {title}
"""

assistant json {
  Brand: verbatim(title, max=12) | null
  "Net content": verbatim(title, max=12) | null
}
'''
PASTA = "import sys; sys.argv[0] = 'pasta'; from pastalang.cli.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    return folder


def test_the_wheel_and_the_sdist_hold_every_file_of_the_package(built: Path) -> None:
    package = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "pastalang").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {"pastalang/weights/pasta-mini/model.safetensors", "pastalang/py.typed"} <= package
    assert "pastalang/weights/smollm2/extract/adapter_model.safetensors" in package
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == package
        [about] = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    assert "Project-URL: Homepage, https://" in about and re.findall(r"\]\((?!https://)", about) == []
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert package <= inside
    assert {"README.md", "LICENSE", "pyproject.toml", "CITATION.cff", "tests/packaging/test_packages.py"} <= inside


@pytest.mark.long
def test_the_wheel_works_away_from_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    use([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {PASTA}"], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_a_clean_environment_takes_it(built: Path, tmp_path: Path, kind: str) -> None:
    (package,) = built.glob(kind)
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    pip = ["env/bin/python", "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    run(*pip, "torch", cwd=tmp_path)
    run(*pip, str(package), cwd=tmp_path)
    use(["env/bin/pasta"], tmp_path)


@pytest.mark.long
def test_the_extension_for_vs_code_holds_one_file_of_code_and_what_it_declares() -> None:
    if shutil.which("npx") is None:
        pytest.skip("npm is not installed, which builds the extension")
    run("make", "vsix", cwd=ROOT)
    with ZipFile(ROOT / "dist" / "pastalang.vsix") as archive:
        files = {name for name in archive.namelist() if name.startswith("extension/")}
        code, about = (archive.read(f"extension/{name}").decode() for name in ("out/extension.js", "package.json"))
    assert files == {
        "extension/LICENSE.txt", "extension/language-configuration.json", "extension/out/LICENSES.txt",
        "extension/out/extension.js", "extension/package.json", "extension/readme.md",
        "extension/syntaxes/pasta.tmLanguage.json",
    }  # fmt: skip
    assert json.loads(about)["main"] == "./out/extension.js" and json.loads(about)["version"] == pastalang.__version__
    built_in = {"assert", "child_process", "crypto", "fs", "net", "os", "path", "readline", "url", "util", "vscode"}
    assert {name.removeprefix("node:") for name in re.findall(r'require\("([^"]+)"\)', code)} <= built_in
    run("node", "--check", "editors/vscode/out/extension.js", cwd=ROOT)


def use(pasta: list[str], folder: Path) -> None:
    """The command with everything it needs besides code: the grammar, the pages, the weights."""
    (folder / "coffee.pasta").write_text(PROGRAM, encoding="utf-8")
    assert "no problems" in run(*pasta, "check", "coffee.pasta", cwd=folder)
    assert "# unknown-name" in run(*pasta, "explain", "unknown-name", cwd=folder)
    title = "title=Norvika Coffee, Dark Roast, 12 oz"
    answer = run(*pasta, "run", "coffee.pasta", "--json", "-i", title, "--trace", "run.html", cwd=folder)
    assert json.loads(answer)["value"] == {"Brand": "Norvika", "Net content": "12 oz"}
    assert "<html" in (folder / "run.html").read_text(encoding="utf-8")


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
