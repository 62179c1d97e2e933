# Aliases only: each recipe is `cargo xtask NAME` or a script, and works without just.

help:
    cargo xtask help

install:
    ./scripts/install

test:
    ./scripts/test

dist *FLAGS:
    cargo xtask dist {{FLAGS}}

schemas *FLAGS:
    cargo xtask schemas {{FLAGS}}

bench *FLAGS:
    cargo xtask bench {{FLAGS}}

conformance:
    cargo xtask conformance
