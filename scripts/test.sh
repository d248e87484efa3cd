#!/usr/bin/env bash
# Installs what is missing, builds and runs every test. The optimized tests run in the preset `ci`, which is `release`
# with warnings as errors: the tests are also the gate for a change. Then the unit tests again, under the address and
# undefined-behaviour sanitizers.
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# run_tests PRESET WHAT [CTEST OPTIONS..]
run_tests() {
  local preset=$1 what=$2
  shift 2
  stage "test-$preset" "$what" ctest --preset "$preset" --parallel "$(nproc)" "$@"
  grep 'tests passed' "build/logs/test-$preset.log"
}

install_packages
build ci
run_tests ci "running every test"
build asan unit_tests_f32
run_tests asan "running the unit tests under the sanitizers" -L unit
