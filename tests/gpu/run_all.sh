#!/usr/bin/env bash
# Everything that only a GPU can show, on a machine that nothing can be fetched onto, in at most six minutes: one table
# of at most 40 rows (OK, FAIL, NONE = not here), exit status 1 if a row fails. How the wheels get there: send.md.
#
#   tests/gpu/run_all.sh keep    put aside what came along in .gpu/, and end
#   tests/gpu/run_all.sh         that too, then join, install, test, drive
set -u
cd "$(dirname "$0")/../.." || exit 2
python=${PYTHON:-python3}
came=${RUN_ALL_CAME:-.gpu}
kept=${RUN_ALL_KEPT:-${TMPDIR:-/tmp}/onnxdyno-gpu}
site=$kept/site
deadline=$((SECONDS + ${RUN_ALL_SECONDS:-350}))
table=$(mktemp) || exit 2
trap 'rm -f "$table"' EXIT

row() { printf '%-4s %-17s %s\n' "$1" "$2" "$3" | cut -c 1-200 | tee -a "$table"; }
left() { # seconds that a step may take: its own limit, or what is left in all
    local rest=$((deadline - SECONDS))
    echo $((rest < $1 ? (rest > 1 ? rest : 1) : $1))
}

mkdir -p "$kept"
if [ -d "$came" ]; then find "$came" -maxdepth 1 -type f -exec cp -f {} "$kept"/ \; ; fi
pieces=$(find "$kept" -maxdepth 1 -name '*.whl.part.*' | LC_ALL=C sort)
if [ "${1-}" = keep ]; then
    row OK keep "$(echo "$pieces" | grep -c part) pieces, $(find "$kept" -maxdepth 1 -name '*.whl' | wc -l) whole wheels are there"
    exit 0
fi

install_all() {
    local wheel name
    if [ -n "$pieces" ]; then
        name=$(basename "$(echo "$pieces" | head -n 1)")
        wheel=$kept/${name%.part.*}
        echo "$pieces" | xargs cat > "$wheel" || return 1
        if [ -f "$wheel.sha256" ]; then
            echo "$(cut -d ' ' -f 1 "$wheel.sha256")  $wheel" | sha256sum --check --quiet || return 1
        fi
    fi
    find "$kept" -maxdepth 1 -name '*.whl' | grep -q . || return 3
    timeout "$(left 90)" "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
        --target "$site" "$kept"/*.whl
}

if [ -d "$site/onnxruntime" ] && [ -z "$pieces" ]; then
    row OK install "was there"
else
    said=$(install_all 2>&1)
    case $? in
        0) row OK install "$(find "$kept" -maxdepth 1 -name '*.whl' | wc -l) wheels" ;;
        3) row NONE install "no wheels came along (see tests/gpu/send.md): the Python that is here is used as it is" ;;
        *) row FAIL install "$(echo "$said" | tail -n 1)" ;;
    esac
fi

# CUDA 13 and cuDNN 9 as they lie in Python packages: nvidia/cu13/lib, nvidia/cudnn/lib ...
folders=$("$python" -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null |
    while read -r folder; do find "$folder" -maxdepth 2 -type d -name lib; done | paste -s -d : -)
export LD_LIBRARY_PATH=$folders${folders:+:}${LD_LIBRARY_PATH:-}
export PYTHONPATH=$site:$PWD/src:$PWD/tests:$PWD${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1 ONNXDYNO_LOCK_DIR=$kept/locks CUDA_DEVICE_ORDER=PCI_BUS_ID
mkdir -p "$ONNXDYNO_LOCK_DIR"
row OK folders "$(echo "$folders" | tr ':' '\n' | grep -c .) folders of NVIDIA libraries"

log=$kept/pytest.log
COLUMNS=240 timeout -k 5 "$(left 170)" "$python" -m pytest -q -m gpu -p no:cacheprovider tests/gpu > "$log" 2>&1
case $? in
    0) if grep -q ' passed' "$log"; then state=OK; else state=NONE; fi ;;
    124 | 137) state=FAIL; echo 'ran past its time' >> "$log" ;;
    *) state=FAIL ;;
esac
row "$state" pytest "$(tail -n 1 "$log")"
if [ "$state" = NONE ]; then row NONE pytest "$(grep -m 1 '^SKIPPED' "$log" || echo 'nothing ran')"; fi
grep -E '^(FAILED|ERROR) ' "$log" | head -n 6 | while read -r line; do row FAIL pytest "$line"; done

steps=$("$python" tests/gpu/steps.py 2> "$kept/step.err") || row FAIL steps "$(tail -n 1 "$kept/step.err")"
for step in $steps; do
    limit=40
    case $step in tenant | cudnn-search) limit=45 ;; packages | libraries | identity) limit=20 ;; esac
    if [ $((deadline - SECONDS)) -lt 5 ]; then
        row FAIL "$step" "no time was left for it"
        continue
    fi
    timeout -k 5 "$(left $limit)" "$python" tests/gpu/steps.py "$step" > "$kept/step.log" 2> "$kept/step.err"
    status=$?
    grep -E '^(OK  |FAIL|NONE) ' "$kept/step.log" | head -n 4 | while read -r line; do
        row "$(echo "$line" | cut -d ' ' -f 1)" "$step" "$(echo "$line" | sed -E 's/^[A-Z]+ +[^ ]+ +//')"
    done
    if [ $status -ne 0 ] || ! grep -qE '^(OK  |FAIL|NONE) ' "$kept/step.log"; then
        row FAIL "$step" "ended with $status: $(tail -n 1 "$kept/step.err")"
    fi
done

echo "$(grep -c '^OK' "$table") OK, $(grep -c '^FAIL' "$table") FAIL, $(grep -c '^NONE' "$table") NONE in ${SECONDS} s"
if grep -q '^FAIL' "$table"; then exit 1; fi
