#!/bin/sh
# Runs the GPU tests, the memory checker and the benchmark on a machine with a GPU and CuPy, in a copy of the checkout.
# Wheels that the machine lacks lie in .whl/, models in .carry/models, kernels compiled before in
# .carry/cubin.tar.xz; a file that is too large for one visit in parts, /tmp/gguf and .carry/gguf.
# PEER: a folder that holds onnxruntime-genai-cuda, to be measured beside ours.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site .whl/*.whl || exit 1
export PYTHONPATH=/tmp/site:$root/engine:$root/tests/support PYTHONUNBUFFERED=1
[ -d .carry/models ] && mkdir -p ../shared && cp -r .carry/models ../shared/
mkdir -p "$HOME/.cache/vramscope/cuda-kernels"
[ -f .carry/cubin.tar.xz ] && tar -xJf .carry/cubin.tar.xz -C "$HOME/.cache/vramscope/cuda-kernels"
[ -d .carry/gguf ] && cat /tmp/gguf/part* .carry/gguf/part* > "$HOME/.cache/vramscope/SmolLM2-135M-Instruct.Q4_1.gguf"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
timeout "${TEST_SECONDS:-330}" python3 -m pytest -c tests/gpu/visit.ini --rootdir . --confcutdir . -q --maxfail="${MAXFAIL:-60}" \
    --tb=short -p no:cacheprovider ${TESTS:-tests/gpu} > "${OUT:-/tmp}/tests.txt" 2>&1
grep -E "^(FAILED|ERROR|E  )|passed|failed|error" "${OUT:-/tmp}/tests.txt" | cut -c1-260 | tail -60
for tool in memcheck racecheck initcheck; do
    timeout 60 compute-sanitizer --tool $tool --error-exitcode 9 python3 tests/gpu/decode_step.py 2>&1 | tail -1
done
timeout "${BENCH_SECONDS:-200}" python3 -m tests.bench.gpu_decode ${PEER:+--peer "$PEER"} ${BENCH:-} 2>&1 | tail -40
