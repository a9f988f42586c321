# Short names for the usual commands. `scripts/test` runs everything and needs no `just`.

set positional-arguments

_default:
    @just --list

# format, lints, docs
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked

# Rust tests; arguments go to nextest
test *args:
    #!/usr/bin/env bash
    set -euo pipefail
    . scripts/setup all
    cargo nextest run --workspace --locked --tool-config-file "quittance:$PWD/scripts/nextest.toml" "$@"

# everything, as before a change lands
ci:
    scripts/test

# a local chain, the facilitator on it, real payments
demo *args:
    scripts/demo "$@"

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# rebuild the contracts' artifacts
contracts:
    cd contracts && npm ci --no-audit --no-fund && node build.mjs && node --test test.mjs

# the official clients as peers
e2e:
    #!/usr/bin/env bash
    set -euo pipefail
    . scripts/setup all
    cargo build --workspace --bins --locked
    cd e2e && npm ci --ignore-scripts --no-audit --no-fund && npm test

# the rule tables against any facilitator
conformance url *args:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo run --locked --package quittance --bin quittance -- conformance --url "$@"

# one fuzz target for some seconds; the targets are in docs/FUZZING.md
fuzz target seconds="60":
    #!/usr/bin/env bash
    set -euo pipefail
    cd fuzz
    mkdir -p "found/$1"
    RUSTC_BOOTSTRAP=1 cargo fuzz run "$1" "found/$1" "corpus/$1" -- -max_total_time="$2" -max_len=16384

# licences, sources, advisories
deny:
    cargo deny --locked check
