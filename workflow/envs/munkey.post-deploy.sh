# Snakemake runs this in the new environment, from the project's folder. It installs the same pins as `make`.
set -eu
uv pip install --python "$CONDA_PREFIX/bin/python" --compile-bytecode -r requirements.lock
uv pip install --python "$CONDA_PREFIX/bin/python" --no-deps --editable .
