//! A fixed run of seeds: the contract holds, the edges are reached, and a seed is a whole report.

use corelog_sim::{Campaign, Outcome, run};

/// Seeds of the run that is part of every test run; `scripts/sim.sh` runs on from there.
const SEEDS: u64 = 200;

#[test]
fn the_contract_holds_and_the_edges_are_reached() {
    let campaign = Campaign { from: 0, count: SEEDS, until: None, threads: 2, events: 60 };
    let Outcome { seeds, probes, failure } = campaign.run();
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    assert_eq!(seeds, SEEDS);
    let missed = probes.missed();
    assert!(missed.is_empty(), "never reached in {SEEDS} seeds: {missed:?}\n{probes}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let first = run(seed, 0).unwrap_or_else(|failure| panic!("{failure}"));
        let second = run(seed, 0).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(first.events > 10);
        assert_eq!(first, second, "seed {seed}");
    }
    let (one, other) = (run(1, 0).unwrap(), run(2, 0).unwrap());
    assert_ne!(one.hash, other.hash, "the hash sees what happens");
}
