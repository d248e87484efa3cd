#!/usr/bin/env bash
# From a bare Debian to the first finding: installs what is missing, builds, and trains a two-layer attention-only model
# until its induction heads show. Options go to the program:  scripts/demo.sh --quick   scripts/demo.sh --help
# Builds this one program, which is quick;  cmake --build --preset release  builds the others.
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages
build release programs
say "running build/release/bin/induction${*:+ $*}"
exec build/release/bin/induction "$@"
