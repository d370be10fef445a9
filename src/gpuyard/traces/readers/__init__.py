"""One reader a format; the first whose `matches` accepts the beginning of a file reads it."""

from __future__ import annotations

from gpuyard.traces.readers import gavel, helios, itp, muri, native, openb, pai, philly, philly_flat, pollux, synergy

READERS = (
    native.YAML,
    native.PARQUET,
    synergy.READER,
    philly.READER,
    philly_flat.POLLUX,
    philly_flat.DISTRIBUTION,
    philly_flat.CHRONUS,
    philly_flat.ELASTICFLOW,
    philly_flat.TIRESIAS,
    itp.READER,
    openb.READER,
    pollux.READER,
    muri.READER,
    gavel.GAVEL,
    gavel.SHOCKWAVE,
    helios.READER,
    pai.READER,
)
